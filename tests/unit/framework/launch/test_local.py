"""Processes of this machine, as their launcher knows them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from framework.launch import local
from framework.launch.local import _Local


def test_a_process_that_has_closed_its_status_pipe_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local, "KILLED_S_MAX", 0.1)
    reading, writing = os.pipe()
    os.close(writing)
    ours, theirs = socket.socketpair()
    sleeping = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    process = _Local(sleeping, ("127.0.0.1", 1), reading, ours)
    assert process.poll() is None
    assert process.wait() == -signal.SIGKILL
    sleeping.wait()
    assert process.ending() == "was ended by SIGKILL"
    for end in (ours, theirs):
        end.close()
    os.close(reading)
