"""An output of a broker: what may be read, in which parts, and what is forgotten."""

from __future__ import annotations

import pytest

from operators.broker import outbox as module
from operators.broker.outbox import KeptRows, Outbox, OutputPart
from operators.broker.segments import Extent
from operators.errors import RequestRefused

_texts: list[bytes] = []
"""What was written, by the number that is its place."""


def kept(text: str, rows: int = 1) -> KeptRows:
    _texts.append(text.encode())
    return KeptRows(Extent(0, len(_texts) - 1, len(text)), rows)


def text(extent: Extent) -> bytes:
    return _texts[extent.offset]


def filled(*epochs: int) -> Outbox:
    """An outbox with one piece of one row in each of these epochs, all closed."""
    outbox = Outbox("counts")
    for epoch in epochs:
        outbox.add(epoch, kept(f"epoch {epoch}"))
    outbox.close_before(max(epochs) + 1)
    return outbox


def texts(outbox: Outbox, parts: list[OutputPart]) -> list[list[bytes]]:
    return [
        [text(one) for epoch, first, end in part.pieces for one in outbox.read(epoch, first, end)] for part in parts
    ]


def test_only_closed_epochs_with_rows_are_available():
    outbox = Outbox("counts")
    assert outbox.after(0) == 0
    outbox.add(0, kept("a"))
    outbox.add(3, kept("b"))
    assert outbox.after(0) == 0
    outbox.close_before(3)
    assert outbox.after(0) == 1, "epochs 1 and 2 are closed and empty: nobody needs to be told"
    outbox.close_before(None)
    assert outbox.after(0) == 4
    assert outbox.after(4) == 4


def test_limits_are_kept_but_for_one_epoch_at_least():
    outbox = Outbox("counts")
    for epoch in range(4):
        outbox.add(epoch, kept("12345", rows=10))
    outbox.close_before(4)
    assert [outbox.after(0, rows_max=rows) for rows in (1, 10, 19, 20, 40, 99)] == [1, 1, 1, 2, 4, 4]
    assert [outbox.after(1, bytes_max=size) for size in (1, 10, 14, 15)] == [2, 3, 3, 4]


def test_parts_cover_everything_once_in_order_and_are_the_same_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "PART_BYTES", 10)
    outbox = Outbox("counts")
    for epoch, count in [(0, 3), (2, 1), (5, 4)]:
        for number in range(count):
            outbox.add(epoch, kept(f"{epoch}-{number}!"))
    outbox.close_before(6)
    parts = outbox.parts(0, 6)
    expected = [[b"0-0!", b"0-1!", b"0-2!"], [b"2-0!", b"5-0!", b"5-1!"], [b"5-2!", b"5-3!"]]
    assert texts(outbox, parts) == expected
    assert texts(outbox, outbox.parts(0, 6)) == expected
    assert texts(outbox, outbox.parts(2, 5)) == [[b"2-0!"]]
    assert outbox.parts(3, 5) == []


def test_what_is_forgotten_is_gone_and_asking_for_it_says_so():
    outbox = filled(0, 1, 2)
    assert [text(one) for one in outbox.forget(2)] == [b"epoch 0", b"epoch 1"]
    assert outbox.forget(2) == []
    for ask in (lambda: outbox.parts(1, 3), lambda: outbox.read(1, 0, 1)):
        with pytest.raises(RequestRefused, match="epoch 1 of output 'counts' was read, committed and forgotten"):
            ask()
    assert texts(outbox, outbox.parts(2, 3)) == [[b"epoch 2"]]
    assert not outbox.empty
    outbox.forget(3)
    assert outbox.empty


def test_an_older_offset_that_is_committed_once_more_brings_nothing_back():
    """By a second query, or after a restart."""
    outbox = filled(0, 1, 2)
    outbox.forget(2)
    assert outbox.forget(1) == []
    assert outbox.forgotten == 2
    with pytest.raises(RequestRefused, match="a new one finds epochs from 2 on"):
        outbox.parts(1, 3)


def test_what_is_not_closed_can_be_neither_read_nor_forgotten():
    outbox = filled(0)
    outbox.add(1, kept("more to come"))
    with pytest.raises(RequestRefused, match="epoch 1 of output 'counts' is not closed yet"):
        outbox.read(1, 0, 1)
    with pytest.raises(RequestRefused, match="has not come to epoch 2 yet"):
        outbox.forget(2)
