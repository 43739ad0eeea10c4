"""Jobs on several hosts: they count right across them, and say which host was lost.

The hosts are network namespaces (`tests.hosts`), so that real packets really get lost, or come late.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hosts import Hosts, Made, distant_hosts, hosts
from tests.process.crew import Crew

PORT = 7700
LOST_S = 10.0
"""How long it may take until survivors have said which peer was lost; docs/howto/rescale.md says so."""


@contextmanager
def crew_on(net: Hosts, directory: Path, *, port: int = PORT, founders: int = 2) -> Iterator[Crew]:
    directory.mkdir(exist_ok=True)
    crew = Crew(directory, port, net, founders=founders)
    try:
        crew.start()
        yield crew
    finally:
        crew.end()


def test_a_job_on_two_hosts_is_joined_from_a_third_which_leaves_again(made: Made, tmp_path: Path):
    with crew_on(made(hosts(3)), tmp_path) as crew:
        crew.goes_on(1)
        crew.join(2)
        crew.wait_until_in(2)
        crew.goes_on(2)
        crew.leave(2)
        crew.goes_on(1)
        crew.finish()


def test_a_job_is_rescaled_although_every_packet_takes_25_ms(made: Made, tmp_path: Path):
    with crew_on(made(distant_hosts(3, delay_ms=25)), tmp_path) as crew:
        crew.join(2, through=1)
        crew.wait_until_in(2)
        crew.goes_on(2)
        crew.leave(2)
        crew.finish()


@pytest.mark.parametrize("lose", [Hosts.take_down, Hosts.cut])
def test_a_host_that_is_lost_is_named_by_the_others_and_names_them(
    made: Made, tmp_path: Path, lose: Callable[[Hosts, int], None]
):
    """Of two jobs, one sends data all the time, and one nothing at all."""
    net = made(hosts(3))
    with (
        crew_on(net, tmp_path / "busy", founders=3) as busy,
        crew_on(net, tmp_path / "quiet", port=PORT + 1) as quiet,
    ):
        (quiet.directory / "rest").touch()
        quiet.wait_for(0, "all is quiet")
        busy.goes_on(1)
        began_s = time.monotonic()
        lose(net, 1)
        for crew, process in ((quiet, 0), (quiet, 1), (busy, 0), (busy, 1), (busy, 2)):
            assert crew.code(process) == 1
            assert time.monotonic() - began_s < LOST_S
            lost, host = (r"[02]", r"10\.77\.0\.[13]") if process == 1 else ("1", r"10\.77\.0\.2")
            said = rf"lost worker {lost}: worker {lost} at {host}:\d+: its machine, or the way there, no longer answers"
            assert re.search(said, crew.text(process)), crew.story()
