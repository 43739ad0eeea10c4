"""The examples for users of Spark, run as they say: Spark checks their results, and this checks what they print."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.examples.program import example
from tests.processes import run

WAIT_S = 200.0
"""For a whole Spark application, on a machine that has other things to do."""

pytestmark = pytest.mark.timeout(WAIT_S + 40)


def printed(folder: Path, name: str, *arguments: str) -> list[str]:
    """What an example prints; Spark and the job may have things to say on the other stream."""
    ended = run(*example(name, *arguments), state=folder, cwd=folder, timeout_s=WAIT_S)
    assert ended.code == 0, ended
    return ended.out.splitlines()


def events(folder: Path) -> list[dict[str, Any]]:
    """The lines of all files, in their order."""
    return [json.loads(line) for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]


def revenues(lines: list[str]) -> dict[str, Decimal]:
    """The last that was printed of each product."""
    return {product: Decimal(amount.replace(",", "")) for product, amount in map(str.split, lines)}


def test_files_that_arrive_are_added_up(tmp_path: Path):
    *shown, compared = printed(tmp_path, "spark_files.py", "--files", "3")
    assert compared.split(maxsplit=2) == ["differences", "0", "(against Spark's own sum over 600 orders)"]
    sums: Counter[str] = Counter()
    for file in (tmp_path / "build" / "orders").glob("*.csv"):
        for product, quantity, price in (line.split(",") for line in file.read_text().splitlines()):
            sums[product] += int(quantity) * int(price.replace(".", ""))
    assert revenues(shown) == {product: Decimal(cents) / 100 for product, cents in sums.items()}


def test_a_directory_that_is_not_there(tmp_path: Path):
    ended = run(*example("spark_files.py", "--watch", "mine"), state=tmp_path, cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith("spark_files.py: error: there is no directory mine\n")


def test_each_event_comes_through_once_and_ids_are_forgotten(tmp_path: Path):
    lines = printed(tmp_path, "deduplicate.py", "--batches", "6")
    sent = events(tmp_path / "build" / "deduplicate" / "events")
    assert lines == [
        f"events          {len(sent):>8,}",
        f"unique          {len({event['id'] for event in sent}):>8,}",
        "ids remembered       900   (those of the last 3 batches)",
        "differences            0   (against Spark's dropDuplicates)",
    ]
    assert len(sent) > 6 * 300 == len({event["id"] for event in sent})


def test_sessions_are_those_that_spark_finds(tmp_path: Path):
    lines = printed(tmp_path, "sessions.py", "--hours", "6")
    clicks = events(tmp_path / "build" / "sessions" / "clicks")
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


def test_a_job_within_a_script_is_scaled_and_has_dead_letters(tmp_path: Path):
    assert printed(tmp_path, "embedded.py") == [
        "processes     3, and 85 bins have moved to the third",
        "dead letters  Row(line='sensor-0,?', reason=\"ValueError: invalid literal for int() with base 10: '?'\")",
        "differences   0   (against Spark's own groupBy and max)",
    ]
