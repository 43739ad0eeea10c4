"""What a terminal shows: the output of processes, and the progress line below it."""

from __future__ import annotations

import os

import pytest

from framework.membership.members import WorkerId
from operators.control import terminal as module
from operators.control.terminal import ERASE, Terminal


def test_the_progress_line_stays_below_what_is_printed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "DRAIN_S", 60.0)
    terminal = Terminal(prefix=True)
    terminal.shows_line = True
    terminal.show_line("epoch 3")
    out, err = terminal.outputs([WorkerId(0)], alone=False)
    assert out is not None
    assert err is not None
    os.write(out, b"tea\n")
    os.close(out)
    os.close(err)
    terminal.close()
    shown, erase = capfd.readouterr(), ERASE.decode()
    assert shown.out == "0 | tea\n"
    assert shown.err == f"{erase}epoch 3{erase}epoch 3{erase}", "it makes way, comes back, and goes in the end"
