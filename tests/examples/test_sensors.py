"""`sensors.py`: a fold on columns finds what it finds on rows."""

from __future__ import annotations

from pathlib import Path

from tests.examples.program import example
from tests.processes import run


def test_the_anomalies_are_found_on_columns_and_on_rows(tmp_path: Path):
    *anomalies, last = run(*example("sensors.py"), state=tmp_path).lines
    assert last == f"{len(anomalies)} of 100,000 readings are anomalies; rows give the same"
    assert anomalies == [
        "sensor-120 at 58 s: 33.3 °C, expected 27.8 (21 deviations)",
        "sensor-021 at 130 s: 32.3 °C, expected 26.7 (15 deviations)",
        "sensor-166 at 210 s: 17.7 °C, expected 11.7 (21 deviations)",
    ]
