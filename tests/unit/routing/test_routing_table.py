"""The router: who owns what at which time, and what leaves when."""

from __future__ import annotations

import pytest

from framework.membership.members import WorkerId
from framework.wire.codec import decode_value, encode_value
from routing.bins import BinId
from routing.commands import Configuration
from routing.routing_table import Installation, RoutingState, RoutingTable, Ship

A, B, C = WorkerId(0), WorkerId(3), WorkerId(8)


def configuration(time: int, sequence: int, moves: dict[int, WorkerId]) -> Configuration:
    return Configuration(time, sequence, {BinId(bin_id): worker for bin_id, worker in moves.items()})


def ship(bin_id: int, target: WorkerId) -> Ship:
    return Ship(BinId(bin_id), target)


def router(worker: WorkerId, *announced: Configuration) -> RoutingTable:
    made = RoutingTable(worker, [A, B, A, B])
    for each in announced:
        made.announce(each)
        made.validate()
    return made


def test_the_table_of_a_time_has_all_that_was_announced_up_to_it():
    routed = router(A, configuration(3, 0, {0: C}), configuration(5, 1, {0: B, 1: A}), configuration(5, 2, {2: C}))
    assert [list(routed.owners_at(time)) for time in (9, 5, 4, 3, 2, 0)] == [
        [B, A, C, B],
        [B, A, C, B],
        [C, B, A, B],
        [C, B, A, B],
        [A, B, A, B],
        [A, B, A, B],
    ]
    assert routed.pending == [3, 5, 5]
    routed.validate()


def test_a_table_is_made_once_and_never_changes():
    routed = router(A, configuration(3, 0, {0: C}), configuration(4, 1, {}))
    before, after = routed.owners_at(2), routed.owners_at(3)
    assert routed.owners_at(3) is after
    assert routed.owners_at(4) is after
    routed.announce(configuration(7, 2, {0: B}))
    assert routed.owners_at(6) is after
    routed.install(lambda time: time <= 3)
    assert (before, after) == ([A, B, A, B], [C, B, A, B])
    assert routed.owners_at(3) is after
    assert routed.owners is after
    routed.validate()


def test_one_copy_brings_a_table_over_many_configurations():
    routed = router(A, *(configuration(time, time, {0: B if time % 2 else A}) for time in range(1, 10)))
    assert list(routed.owners_at(9)) == [B, B, A, B]
    assert [table is not None for table in routed._tables] == [True, *[False] * 8, True]


def test_one_owner_of_everything_is_known():
    routed = router(A, configuration(3, 0, {0: B, 2: B}), configuration(5, 1, {3: A}))
    assert [routed.sole_owner_at(time) for time in (2, 3, 4, 5)] == [None, B, B, None]
    assert RoutingTable(A, [A]).sole_owner_at(0) == A


def test_the_owner_ships_when_everything_earlier_is_applied():
    routed = router(A, configuration(3, 7, {0: C, 1: C}), configuration(5, 8, {2: B}))
    assert routed.install(lambda time: time <= 2) == []
    assert routed.install(lambda time: time <= 4) == [Installation(3, 7, [ship(0, C)])]
    routed.validate()
    assert (routed.pending, routed.owners, routed.since) == ([5], [C, C, A, B], 3)
    assert routed.install(lambda time: True) == [Installation(5, 8, [ship(2, B)])]
    routed.validate()
    assert (routed.pending, routed.owners, routed.since) == ([], [C, C, B, B], 5)


@pytest.mark.parametrize(
    ("worker", "ships"),
    [(A, [[ship(0, B)], []]), (B, [[ship(1, C)], [ship(0, A)]]), (C, [[], [ship(1, B)]])],
)
def test_several_configurations_install_in_order(worker: WorkerId, ships: list[list[Ship]]):
    """Bin 0 goes from A to B and back, bin 1 from B to C and back; each hop is shipped by who owns it by then."""
    routed = router(worker, configuration(3, 0, {0: B, 1: C}), configuration(4, 1, {0: A, 1: B}))
    assert [installation.ships for installation in routed.install(lambda time: True)] == ships
    routed.validate()


def test_an_empty_configuration_is_reported_as_installed():
    assert router(A, configuration(3, 7, {})).install(lambda time: True) == [Installation(3, 7, [])]


def test_a_bin_that_goes_to_its_owner_is_not_shipped():
    routed = RoutingTable(A, [A, B])
    routed.announce(configuration(3, 0, {0: A}))
    assert routed.install(lambda time: True) == [Installation(3, 0, [])]


def test_configurations_are_announced_in_order():
    routed = router(A, configuration(3, 5, {0: B}))
    for late in (configuration(2, 6, {}), configuration(3, 5, {}), configuration(3, 4, {})):
        with pytest.raises(AssertionError, match="announced after"):
            routed.announce(late)
    routed.install(lambda time: True)
    with pytest.raises(AssertionError, match="older than the table installed at 3"):
        routed.announce(configuration(2, 9, {}))


def test_no_record_comes_from_before_the_installed_table():
    routed = router(A, configuration(3, 5, {0: B}))
    routed.install(lambda time: True)
    with pytest.raises(AssertionError, match="a record at 2 after the table of 3 was installed"):
        routed.owners_at(2)


def test_a_joiner_routes_as_its_server_does():
    server = router(A, configuration(2, 0, {3: C}), configuration(5, 1, {0: C}), configuration(8, 2, {}))
    server.install(lambda time: time <= 2)
    state = server.state()
    assert state == RoutingState((A, B, A, C), 2, (configuration(5, 1, {0: C}), configuration(8, 2, {})))
    joiner = RoutingTable(C, [])
    assert not joiner.ready
    assert joiner.restore(decode_value(encode_value(state)))
    joiner.validate()
    assert joiner.ready
    assert [list(joiner.owners_at(time)) for time in (2, 5)] == [list(server.owners_at(time)) for time in (2, 5)]
    assert joiner.install(lambda time: True) == [Installation(5, 1, []), Installation(8, 2, [])]


def test_a_joiner_does_nothing_before_it_knows_the_owners():
    joiner = RoutingTable(C, [])
    for act in (
        lambda: joiner.owners_at(0),
        lambda: joiner.sole_owner_at(0),
        lambda: joiner.announce(configuration(3, 0, {})),
        joiner.state,
    ):
        with pytest.raises(AssertionError, match="worker 8"):
            act()


def test_a_worker_that_routes_already_keeps_its_own_table():
    routed = router(A, configuration(3, 0, {0: B}))
    assert not routed.restore(RoutingState((C, C, C, C), 9, ()))
    assert routed.owners_at(9) == [B, B, A, B]


@pytest.mark.parametrize(
    "wrong",
    [
        [configuration(3, 0, {0: A})],
        [configuration(3, 0, {4: A})],
        [configuration(3, 0, {2: B, 0: B})],
        [configuration(3, 0, {0: B}), configuration(3, 1, {0: C})],
    ],
    ids=["moves to its owner", "unknown bin", "bins out of order", "two hops at one time"],
)
def test_validation_finds_a_configuration_that_no_compiler_makes(wrong: list[Configuration]):
    routed = RoutingTable(A, [A, B, A, B])
    for each in wrong:
        routed.announce(each)
    with pytest.raises(AssertionError):
        routed.validate()


def test_validation_finds_collections_that_disagree():
    for spoil in ("_times", "_tables", "_pending"):
        routed = router(A, configuration(3, 0, {0: B}), configuration(4, 1, {0: C}))
        getattr(routed, spoil).pop()
        with pytest.raises(AssertionError):
            routed.validate()
    routed = router(A, configuration(3, 0, {0: B}))
    list_of_owners = routed.owners_at(3)
    assert isinstance(list_of_owners, list)
    list_of_owners[1] = C
    with pytest.raises(AssertionError):
        routed.validate()
