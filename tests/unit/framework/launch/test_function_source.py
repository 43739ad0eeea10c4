"""Jobs that go to other machines: their folds are compiled there, without the files that they were written in."""

from __future__ import annotations

import linecache
from textwrap import dedent
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer

from operators import Job

CELLS = [
    """
    STEP = 3
    def grown(total, n):
        return total + n + STEP
    """,
    """
    def count(word, n, total):
        total = grown(total, n)
        return total, [(word, total)]
    """,
    """
    from operators import Job
    job = Job("counts")

    @job.dataflow
    def counts(flow):
        words = flow.input("words").to_columns({"word": str})
        flow.output("counts", words.stateful_state_machine(
            count, key="word", state={"total": int}, initial=0, output={"word": str, "total": int}
        ))
    """,
]


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A job whose functions stand in several cells of a notebook, as it travels; the source of cells stays there."""
    namespace: dict[str, Any] = {"__name__": "notebook"}
    with monkeypatch.context() as here:
        here.setattr(linecache, "cache", dict(linecache.cache))
        for number, cell in enumerate(map(dedent, CELLS)):
            name = f"<cell {number}>"
            linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
            exec(compile(cell, name, "exec", dont_inherit=True), namespace)
        shipped = CloudPickleSerializer().dumps(namespace["job"])
    monkeypatch.setattr(linecache, "cache", dict(linecache.cache))
    assert isinstance(shipped, bytes)
    return shipped


def test_a_fold_of_a_notebook_is_compiled_elsewhere(notebook: bytes):
    job = CloudPickleSerializer().loads(notebook)
    assert isinstance(job, Job)
    assert job.run({"words": ["tea", "milk", "tea"]}) == {
        "counts": [(0, ("tea", 4)), (0, ("milk", 4)), (0, ("tea", 8))]
    }
