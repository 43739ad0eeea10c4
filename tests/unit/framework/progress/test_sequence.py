"""`Sequences`: batches are numbered per sender, and none is missing or repeated."""

from __future__ import annotations

import pytest

from framework.errors import ProtocolError
from framework.membership.members import WorkerId
from framework.progress.sequence import Sequences


def test_what_is_sent_is_numbered_from_zero():
    sequences = Sequences()
    assert [sequences.stamp(), sequences.stamp(), sequences.stamp()] == [0, 1, 2]
    assert sequences.next_out == 3


def test_senders_are_counted_apart():
    sequences = Sequences()
    for sender, sequence in [(4, 0), (9, 0), (4, 1), (4, 2), (9, 1)]:
        sequences.accept(WorkerId(sender), sequence)
    assert sequences.next_in == {4: 3, 9: 2}


@pytest.mark.parametrize(("sequence", "due"), [(0, 1), (2, 1), (3, 1)])
def test_a_batch_that_was_lost_or_repeated_is_named(sequence: int, due: int):
    sequences = Sequences()
    sequences.accept(WorkerId(4), 0)
    with pytest.raises(ProtocolError) as refusal:
        sequences.accept(WorkerId(4), sequence)
    assert str(refusal.value) == (
        f"worker 4 sent progress batch {sequence} where {due} was due: a batch was lost or repeated"
    )
    assert sequences.next_in == {4: 1}
