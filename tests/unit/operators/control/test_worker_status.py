"""What a worker says about itself."""

from __future__ import annotations

import pytest

from framework.launch.execute import execute
from framework.worker.worker import Worker
from operators import Input, Probe
from operators.admin.errors import BadRequest
from operators.control import worker_status
from operators.control.worker_messages import WorkerProgress, WorkerStatus


def build(worker: Worker) -> tuple[Input[int], Probe]:
    numbers, probe = Input[int]("numbers"), Probe()
    with worker.dataflow("flow") as scope:
        numbers.stream(scope).map(lambda n: n + 1).map(lambda n: n + 1, name="last").probe(probe)
    return numbers, probe


def test_a_meter_counts_while_somebody_looks_and_then_unsubscribes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker_status, "LISTEN_S", 0.05)

    def main(worker: Worker) -> tuple[WorkerStatus, list[bool]]:
        numbers, probe = build(worker)
        ended: list[bool] = []
        meter = worker_status.OperatorMeter.start(worker, lambda: ended.append(worker.events.listening))
        assert worker.events.listening
        numbers.send_batch([1, 2, 3])
        numbers.advance_to(1)
        worker.step_while(lambda: probe.less_than(1))
        said = worker_status.status(worker, meter.keep())
        worker.step_while(lambda: not ended)
        assert not worker.events.listening
        return said, ended

    [(said, ended)] = execute(main)
    assert ended == [False]
    rows = {row.path: (row.name, row.frontier, row.records) for row in said.operators}
    assert rows == {
        "0.1": ("numbers", (1,), 3),
        "0.2": ("map", (1,), 3),
        "0.3": ("last", (1,), 3),
        "0.4": ("probe", (1,), 3),
    }
    assert (said.frontier, said.members, said.bins, said.congested) == ((1,), (0,), (), False)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ("lats", r"there is no operator 'lats'; there are 'last', 'map', 'numbers', 'probe'; did you mean 'last'\?"),
        ("0.9", r"there is no operator '0\.9'"),
    ],
)
def test_an_operator_that_is_not_there(asked: str, complaint: str):
    def main(worker: Worker) -> None:
        build(worker)
        with pytest.raises(BadRequest, match=complaint):
            worker_status.explain(worker, asked)

    execute(main)


def test_operators_are_found_by_path_and_by_a_name_that_is_theirs_alone():
    def main(worker: Worker) -> list[str]:
        build(worker)
        with worker.dataflow("second") as scope:
            Input[int]("more").stream(scope).map(lambda n: n)
        with pytest.raises(BadRequest, match=r"2 operators are called 'map'; say which one by its path: 0\.2, 1\.2"):
            worker_status.explain(worker, "map")
        return [worker_status.explain(worker, asked).path for asked in ("1.2", "last", None)]

    assert execute(main) == [["1.2", "0.3", "1.2"]]


def test_without_a_dataflow_there_is_nothing_to_explain():
    def main(worker: Worker) -> WorkerProgress:
        with pytest.raises(BadRequest, match="no dataflow runs"):
            worker_status.explain(worker, None)
        return worker_status.progress(worker, None)

    assert execute(main) == [WorkerProgress(frontier=(), goal=None)]
