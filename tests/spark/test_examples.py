"""The examples for users of Spark: Spark checks their results, and this checks what they print.

They run as programs do, but in one process and one session, since Java takes its time to start: `open_session` takes
the one that is there. README's and the how-tos' commands are run as they stand, by `tests.examples.test_docs`.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.examples.program import example
from tests.processes import ROOT, run
from tests.spark.conftest import small_session

Printed = Callable[..., list[str]]

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """Spark, for as long as the examples run."""
    with small_session("local[6]"):
        yield


@pytest.fixture
def printed(
    session: None, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Printed:
    """What an example prints; Spark and the job may have things to say on the other stream.

    Paths that it is given are whole: Java is in the directory that it was started in, perhaps by another test.
    """

    def run_example(name: str, *arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
        assert ended.value.code == 0
        return capsys.readouterr().out.splitlines()

    return run_example


def events(folder: Path) -> list[dict[str, Any]]:
    """The lines of all files, in their order."""
    return [json.loads(line) for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]


def revenues(lines: list[str]) -> dict[str, Decimal]:
    """The last that was printed of each product."""
    return {product: Decimal(amount.replace(",", "")) for product, amount in map(str.split, lines)}


def test_files_that_arrive_are_added_up(folder: Path, printed: Printed):
    *shown, compared = printed("spark_files.py", "--files", "3", "--output", str(folder / "orders"))
    assert compared.split(maxsplit=2) == ["differences", "0", "(against Spark's own sum over 600 orders)"]
    sums: Counter[str] = Counter()
    for file in (folder / "orders").glob("*.csv"):
        for product, quantity, price in (line.split(",") for line in file.read_text().splitlines()):
            sums[product] += int(quantity) * int(price.replace(".", ""))
    assert revenues(shown) == {product: Decimal(cents) / 100 for product, cents in sums.items()}


def test_a_directory_that_is_not_there(tmp_path: Path):
    ended = run(*example("spark_files.py", "--watch", "mine"), state=tmp_path, cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith("spark_files.py: error: there is no directory mine\n")


def test_each_event_comes_through_once_and_ids_are_forgotten(folder: Path, printed: Printed):
    lines = printed("deduplicate.py", "--batches", "6", "--output", str(folder / "deduplicate"))
    sent = events(folder / "deduplicate" / "events")
    assert lines == [
        f"events          {len(sent):>8,}",
        f"unique          {len({event['id'] for event in sent}):>8,}",
        "ids remembered       900   (those of the last 3 batches)",
        "differences            0   (against Spark's dropDuplicates)",
    ]
    assert len(sent) > 6 * 300 == len({event["id"] for event in sent})


def test_sessions_are_those_that_spark_finds(folder: Path, printed: Printed):
    lines = printed("sessions.py", "--hours", "6", "--output", str(folder / "sessions"))
    clicks = events(folder / "sessions" / "clicks")
    times: dict[str, list[datetime]] = defaultdict(list)
    for click in clicks:
        times[click["user"]].append(datetime.fromisoformat(click["at"]))
    gaps = [b - a for each in times.values() for a, b in zip(sorted(each), sorted(each)[1:], strict=False)]
    sessions = len(times) + sum(gap > timedelta(minutes=30) for gap in gaps)
    assert lines[:3] == [
        f"clicks       {len(clicks):>8,}   (0 came too late)",
        f"sessions     {sessions:>8,}",
        "differences         0   (against Spark's session_window)",
    ]
    assert re.fullmatch(r"\|user-\d+ *\|2026-03-01 [\d:]{8}\|2026-03-01 [\d:]{8}\|\d+ *\|", lines[6]), lines


def test_a_job_within_a_script_is_scaled_and_has_dead_letters(printed: Printed):
    scaled, *others = printed("embedded.py")
    moved = re.fullmatch(r"processes     3, and (\d+) bins have moved to the third", scaled)
    assert moved, scaled
    assert 60 < int(moved[1]) < 120  # about a third of 256, by the records that came to them so far
    assert others == [
        "dead letters  Row(line='sensor-0,?', reason=\"ValueError: invalid literal for int() with base 10: '?'\")",
        "differences   0   (against Spark's own groupBy and max)",
    ]
