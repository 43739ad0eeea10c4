"""Control, configurations and routing: every worker decides alike, and every bin has one owner at each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from framework.membership.members import WorkerId
from framework.wire.codec import decode_value, encode_value
from routing.bins import BinId, Bins
from routing.commands import (
    Bootstrap,
    CompiledCommand,
    Compiler,
    Configuration,
    Control,
    Handover,
    Map,
    Move,
    Noop,
    Refused,
    Retire,
)
from routing.routing_table import RoutingState, RoutingTable, Ship

BINS = 4
OWNERS = [WorkerId(0), WorkerId(2), WorkerId(5)]
MEMBERS = [*OWNERS, WorkerId(6)]
"""Worker 6 has joined and knows nothing yet."""
TABLE = [WorkerId(0), WorkerId(2), WorkerId(5), WorkerId(0)]
LAST = 3


def new_compiler() -> Compiler:
    return Compiler(set(OWNERS))


Stream = list[tuple[int, Any]]
"""Times and records, in some order of arrival."""

WORKERS = st.sampled_from(MEMBERS)
ANY_WORKER = st.one_of(WORKERS, WORKERS, WORKERS, st.just(WorkerId(7)))
MOVES = st.builds(Move, st.integers(0, BINS - 1).map(BinId), WORKERS)
INSTRUCTIONS = st.one_of(
    MOVES,
    MOVES,
    st.builds(Move, st.integers(-1, BINS).map(BinId), ANY_WORKER),
    st.builds(Map, st.lists(WORKERS, min_size=BINS, max_size=BINS).map(tuple)),
    st.builds(Map, st.lists(ANY_WORKER, max_size=BINS + 1).map(tuple)),
    st.builds(Bootstrap, ANY_WORKER, WORKERS),
    st.builds(Retire, WORKERS),
    st.just(Noop()),
)
JUNK: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.just([[]]),
    st.builds(
        Control,
        st.one_of(st.integers(-1, 4), st.none(), st.just("1")),
        st.one_of(st.integers(-1, 2), st.none(), st.just(2**70)),
        st.one_of(INSTRUCTIONS, st.none(), st.builds(Map, st.just("abcd")), st.builds(Move, st.none(), st.just({}))),
    ),
)


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Sets of control messages at a few times, most of them good, and some records that are anything."""
    stream: Stream = []
    for _ in range(draw(st.integers(0, 6))):
        instructions = draw(st.lists(INSTRUCTIONS, min_size=1, max_size=3))
        sequence, time = draw(st.integers(0, 8)), draw(st.integers(0, LAST))
        count = draw(st.sampled_from([len(instructions)] * 5 + [1, 2]))
        times = draw(st.sampled_from([[time]] * 5 + [[time, LAST]]))
        stream += [(times[at % len(times)], Control(sequence, count, each)) for at, each in enumerate(instructions)]
    stream += draw(st.lists(st.tuples(st.integers(0, LAST), JUNK), max_size=2))
    return stream


def apply(table: Sequence[WorkerId], outcomes: list[CompiledCommand]) -> list[WorkerId]:
    result = list(table)
    for outcome in outcomes:
        if isinstance(outcome, Configuration):
            for bin_id, worker in outcome.moves.items():
                result[bin_id] = worker
    return result


def decide(stream: Stream, compiler: Compiler, *, ahead: int, first: int = 0) -> list[CompiledCommand]:
    """Compile each time, with messages that are up to `ahead` later having arrived before."""
    table, outcomes = list(TABLE), list[CompiledCommand]()
    waiting = list(stream)
    for time in range(first, LAST + 1):
        for due in [(at, record) for at, record in waiting if at <= time + ahead]:
            compiler.add(*due)
        waiting = [(at, record) for at, record in waiting if at > time + ahead]
        decided = compiler.compile(time, table, MEMBERS)
        table = apply(table, decided)
        outcomes += decided
    return outcomes


@given(streams(), st.randoms(use_true_random=False), st.integers(0, LAST))
def test_the_order_of_arrival_does_not_matter(stream: Stream, random: Any, ahead: int):
    shuffled = list(stream)
    random.shuffle(shuffled)
    assert decide(stream, new_compiler(), ahead=0) == decide(shuffled, new_compiler(), ahead=ahead)


@given(streams())
def test_every_set_has_one_outcome_and_accepted_sequences_ascend(stream: Stream):
    outcomes = decide(stream, new_compiler(), ahead=LAST)
    sets = {
        (time, record.sequence)
        for time, record in stream
        if isinstance(record, Control) and isinstance(record.sequence, int) and record.sequence >= 0
    }
    assert Counter((each.time, each.sequence) for each in outcomes if each.sequence is not None) == Counter(sets)
    strangers = len(stream) - sum(
        isinstance(record, Control) and (time, record.sequence) in sets for time, record in stream
    )
    assert sum(each.sequence is None for each in outcomes) == strangers
    accepted = [each.sequence for each in outcomes if not isinstance(each, Refused)]
    assert accepted == sorted(set(accepted), key=lambda sequence: sequence or 0)


@given(streams())
def test_what_is_accepted_is_what_was_asked_for(stream: Stream):
    """Applied naively, set by set in order of sequence, accepted sets lead from table to table as configurations do."""
    naive, table = list(TABLE), list(TABLE)
    outcomes = decide(stream, new_compiler(), ahead=0)
    for time in range(LAST + 1):
        decided = [outcome for outcome in outcomes if outcome.time == time]
        for outcome in decided:
            records = [record for at, record in stream if at == time]
            group = [record for record in records if getattr(record, "sequence", None) == outcome.sequence]
            if isinstance(outcome, Handover):
                assert records == [Control(outcome.sequence, 1, Bootstrap(outcome.server, outcome.joiner))]
                assert outcome.server != outcome.joiner
                assert {outcome.server, outcome.joiner} <= set(MEMBERS)
            elif isinstance(outcome, Configuration):
                assert {record.count for record in group} == {len(group)}
                for record in group:
                    match record.instruction:
                        case Map(owners):
                            naive = list(owners)
                        case Move(bin_id, worker):
                            naive[bin_id] = worker
                moved = [(bin_id, table[bin_id] != worker) for bin_id, worker in outcome.moves.items()]
                assert moved == [(bin_id, True) for bin_id in sorted(outcome.moves)]
        hops = [bin_id for outcome in decided if isinstance(outcome, Configuration) for bin_id in outcome.moves]
        assert len(hops) == len(set(hops))
        table = apply(table, decided)
        assert table == naive
        assert set(table) <= set(MEMBERS)


def understood(record: Any) -> Any:
    """What a compiler keeps of a record."""
    compiler = new_compiler()
    compiler.add(0, record)
    [(_, [kept])] = compiler.state().arrived
    return kept


@given(streams(), st.integers(0, LAST), st.integers(0, LAST), st.randoms(use_true_random=False))
def test_a_joiner_decides_as_the_others_do(stream: Stream, time: int, ahead: int, random: Any):
    """Each later message has reached the server, the joiner or both when the joiner restores, or arrives then."""
    compiler, joiner = new_compiler(), new_compiler()
    everything = decide(stream, compiler, ahead=0)
    server, table = new_compiler(), list(TABLE)
    later = []
    alike = Counter((at, understood(record)) for at, record in stream)
    for at, record in stream:
        if at <= time:
            server.add(at, record)
        # Equal messages of different senders cannot be told apart if each side has one of them.
        elif alike[at, understood(record)] > 1 or at > time + ahead:
            later.append((at, record))
        else:
            where = random.choice(["server", "joiner", "both"])
            if where != "joiner":
                server.add(at, record)
            if where != "server":
                joiner.add(at, record)
    decided: list[CompiledCommand] = []
    for at in range(time + 1):
        decided += server.compile(at, apply(table, decided), MEMBERS)
    joiner.restore(decode_value(encode_value(server.state())))
    for at, record in later:
        joiner.add(at, record)
    for at in range(LAST + 1):
        decided += joiner.compile(at, apply(table, decided), MEMBERS)
    assert decided == everything


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[WorkerId], list[Configuration]]:
    """A table and configurations as a compiler makes them."""
    owners = draw(st.lists(WORKERS, min_size=1, max_size=6))
    table, configurations, time = list(owners), list[Configuration](), 0
    for sequence in range(draw(st.integers(0, 6))):
        gap = draw(st.integers(0, 2))
        time += gap
        moves = {}
        taken = {bin_id for each in configurations if each.time == time for bin_id in each.moves}
        for index in sorted(draw(st.sets(st.integers(0, len(owners) - 1), max_size=3)) - taken):
            worker = draw(WORKERS)
            if table[index] != worker:
                table[index] = moves[BinId(index)] = worker
        configurations.append(Configuration(time, sequence, moves))
    return owners, configurations


def table_at(owners: list[WorkerId], configurations: list[Configuration], time: int) -> list[WorkerId]:
    return apply(owners, [each for each in configurations if each.time <= time])


@given(histories(), st.data())
def test_routers_agree_with_the_definition_however_far_each_has_installed(
    drawn: tuple[list[WorkerId], list[Configuration]], data: st.DataObject
):
    owners, configurations = drawn
    workers = [*MEMBERS, WorkerId(9)]
    routers = {worker: RoutingTable(worker, list(owners)) for worker in workers}
    shipped: dict[tuple[int, int], list[tuple[WorkerId, Ship]]] = {}
    installed = dict.fromkeys(workers, -1)
    for announced in range(len(configurations) + 1):
        for router in routers.values():
            if announced:
                router.announce(configurations[announced - 1])
            router.validate()
        known = configurations[:announced]
        # A time is reached only when no configuration at it can still be announced.
        next_time = configurations[announced].time if announced < len(configurations) else 99
        for worker in data.draw(st.lists(st.sampled_from(workers), max_size=4)):
            router = routers[worker]
            reached = data.draw(st.integers(0, next_time)) - 1
            for installation in router.install(lambda time, reached=reached: time <= reached):  # type: ignore[misc]
                assert installed[worker] <= installation.time <= reached
                installed[worker] = installation.time
                at = installation.time, installation.sequence
                shipped.setdefault(at, []).extend((worker, ship) for ship in installation.ships)
            router.validate()
            assert router.pending == [each.time for each in known if each.time > max(reached, installed[worker])]
        for router in routers.values():
            for time in data.draw(st.lists(st.integers(router.since, 14), max_size=3)):
                expected = table_at(owners, known, time)
                assert list(router.owners_at(time)) == expected
                assert router.sole_owner_at(time) == (expected[0] if len(set(expected)) == 1 else None)
            router.validate()
    for worker, router in routers.items():
        for installation in router.install(lambda time: True):
            at = installation.time, installation.sequence
            shipped.setdefault(at, []).extend((worker, ship) for ship in installation.ships)
        router.validate()
        assert router.owners == table_at(owners, configurations, 99)
    # Each moved bin is shipped once, by who owned it just before.
    for each in configurations:
        earlier = [other for other in configurations if (other.time, other.sequence) < (each.time, each.sequence)]
        before = apply(owners, list(earlier))
        expected_ships = [(before[bin_id], Ship(bin_id, target)) for bin_id, target in each.moves.items()]
        assert sorted(shipped.get((each.time, each.sequence), []), key=repr) == sorted(expected_ships, key=repr)


@given(histories(), st.integers(-1, 14), st.integers(0, 14))
def test_a_restored_router_is_the_one_that_was_saved(
    drawn: tuple[list[WorkerId], list[Configuration]], reached: int, time: int
):
    owners, configurations = drawn
    server, joiner = RoutingTable(WorkerId(0), list(owners)), RoutingTable(WorkerId(9), [])
    for each in configurations:
        server.announce(each)
    server.install(lambda time: time <= reached)
    state = server.state()
    assert type(state) is RoutingState
    assert joiner.restore(decode_value(encode_value(state)))
    joiner.validate()
    assert joiner.state() == state
    if time >= server.since:
        assert joiner.owners_at(time) == server.owners_at(time)


@given(st.one_of(st.text(), st.integers(), st.tuples(st.text(), st.floats())), st.integers(0, 15))
def test_twice_the_bins_split_each_bin_in_two(key: Any, power: int):
    few, many = Bins(2**power), Bins(2 ** (power + 1))
    assert 0 <= few.of(key) < few.count
    assert many.of(key) // 2 == few.of(key)
