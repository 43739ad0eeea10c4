"""Sensors whose readings stray from their own past, found on columns.

    python examples/sensors.py

Per sensor, a fold keeps an exponentially weighted mean and variance, and gives out readings that are many standard
deviations from the mean. It is compiled for columns; on rows, the same function must give the same to the last bit.
"""

from __future__ import annotations

import math
import sys
from functools import partial

import numpy as np
import pyarrow as pa

from hailer import ColumnInput, Extracted, Probe, Worker, execute

SENSORS, SECONDS, EPOCH_S = 200, 500, 50
WEIGHT = 0.05
"""Of the newest reading."""
DEVIATIONS_MAX = 8.0
WARM_UP = 30
"""Readings of a sensor before any is judged."""
READINGS = {"sensor": str, "second": int, "celsius": float}
STATE, INITIAL = {"seen": int, "mean": float, "variance": float}, (0, 0.0, 0.0)
ANOMALIES = {"sensor": str, "second": int, "celsius": float, "expected": float, "deviations": float}

State = tuple[int, float, float]
Anomaly = tuple[str, int, float, float, float]


def judge(sensor: str, reading: tuple[int, float], state: State) -> tuple[State, list[Anomaly]]:
    second, celsius = reading
    seen, mean, variance = state
    if seen == 0:
        return (1, celsius, 0.0), []
    gap = celsius - mean
    deviations = abs(gap) / math.sqrt(variance) if variance > 0.0 else 0.0
    if seen >= WARM_UP and deviations > DEVIATIONS_MAX:
        return state, [(sensor, second, celsius, mean, deviations)]
    step = WEIGHT * gap
    return (seen + 1, mean + step, (1.0 - WEIGHT) * (variance + gap * step)), []


def readings() -> list[pa.RecordBatch]:
    """A batch per epoch: each sensor drifts about its own temperature, and very few readings are far off."""
    random = np.random.default_rng(7)
    drift = np.cumsum(random.normal(0.0, 0.02, (SECONDS, SENSORS)), axis=0)
    celsius = random.uniform(10.0, 30.0, SENSORS) + drift + random.normal(0.0, 0.3, (SECONDS, SENSORS))
    celsius[random.random((SECONDS, SENSORS)) < 5e-5] += 6.0
    names = [f"sensor-{number:03}" for number in range(SENSORS)]
    return [
        pa.record_batch(
            {
                "sensor": names * EPOCH_S,
                "second": np.repeat(np.arange(first, first + EPOCH_S), SENSORS),
                "celsius": celsius[first : first + EPOCH_S].ravel(),
            }
        )
        for first in range(0, SECONDS, EPOCH_S)
    ]


def main(worker: Worker) -> tuple[Extracted[Anomaly], Extracted[Anomaly]]:
    input, probe = ColumnInput(READINGS, "readings"), Probe()
    with worker.dataflow("sensors") as scope:
        stream = input.stream(scope)
        columns = stream.stateful_state_machine(
            judge, key="sensor", value=["second", "celsius"], state=STATE, initial=INITIAL, output=ANOMALIES
        )
        pairs = stream.to_rows().map(lambda row: (row[0], row[1:]))
        rows = pairs.stateful_state_machine(judge, initial=INITIAL).probe(probe)
        found = columns.extract(), rows.extract()
    for epoch, batch in enumerate(readings()):
        input.send(batch)
        input.advance_to(epoch + 1)
        worker.step_while(partial(probe.less_than, epoch + 1))
    return found


if __name__ == "__main__":
    [(columns, rows)] = execute(main)
    for sensor, second, celsius, expected, deviations in columns.rows():
        print(f"{sensor} at {second} s: {celsius:.1f} °C, expected {expected:.1f} ({deviations:.0f} deviations)")
    if columns.by_time() != rows.by_time():
        sys.exit("rows give something else")
    print(f"{len(columns.rows())} of {SENSORS * SECONDS:,} readings are anomalies; rows give the same")
