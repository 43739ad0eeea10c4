"""`empty`: a stream without records."""

from __future__ import annotations

import pytest

from operators import Probe, empty, to_stream
from tests.unit.operators.cluster import SEEDS, merged, run


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_complete_and_adds_nothing(seed: int):
    probes = [Probe(), Probe()]

    def build(scope):
        nothing = empty(scope)
        return to_stream(scope, [scope.worker.index]).concat(nothing.probe(probes[scope.worker.index])).extract()

    assert merged(run(build, seed=seed, workers=2)) == {0: [0, 1]}
    assert [probe.done() for probe in probes] == [True, True]
