"""Jobs on several hosts: they count right across them, and say which host was lost.

The hosts are network namespaces (`tests.hosts`), so that real packets really get lost, or come late.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hosts import Hosts, Made, distant_hosts, hosts
from tests.process.crew import Crew

PORT = 7700
DELAY_MS = 25


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


def test_a_job_is_rescaled_although_every_packet_takes_its_time(made: Made, tmp_path: Path):
    net = made(distant_hosts(3, delay_ms=DELAY_MS))
    with crew_on(net, tmp_path) as crew:
        assert net.connect_s(1, (net.address(0), PORT)) >= 2 * DELAY_MS / 1000
        crew.join(2, through=1)
        crew.wait_until_in(2)
        crew.goes_on(2)
        crew.leave(2)
        crew.finish()


@pytest.mark.parametrize("lose", [Hosts.take_down, Hosts.cut])
def test_a_host_that_is_lost_is_named_by_the_others_and_names_them(
    made: Made, tmp_path: Path, lose: Callable[[Hosts, int], None]
):
    """Of two jobs, one sends data all the time, and one nothing at all. What they say comes of the watch of links,
    whose bounds are in `test_link_watch`: the kernel's own would read otherwise."""
    net = made(hosts(3))
    with (
        crew_on(net, tmp_path / "busy", founders=3) as busy,
        crew_on(net, tmp_path / "quiet", port=PORT + 1) as quiet,
    ):
        (quiet.directory / "rest").touch()
        quiet.wait_for(0, "all is quiet")
        busy.goes_on(1)
        lose(net, 1)
        for crew, process in ((quiet, 0), (quiet, 1), (busy, 0), (busy, 1), (busy, 2)):
            assert crew.code(process) == 1
            lost, host = (r"[02]", r"10\.77\.0\.[13]") if process == 1 else ("1", r"10\.77\.0\.2")
            said = rf"lost worker {lost}: worker {lost} at {host}:\d+: its machine, or the way there, no longer answers"
            assert re.search(said, crew.text(process)), crew.story()
