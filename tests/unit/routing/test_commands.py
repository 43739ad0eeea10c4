"""The compiler: sets of control messages become configurations, and bad ones are refused with a reason."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from framework.membership.members import WorkerId
from framework.wire.codec import decode_rows, encode_rows
from routing.bins import BinId
from routing.commands import (
    REFUSED_MAX,
    Bootstrap,
    CompiledCommand,
    Compiler,
    CompilerState,
    Configuration,
    Control,
    Handover,
    Instruction,
    Malformed,
    Map,
    Move,
    Noop,
    Refused,
    Retire,
    Retirement,
    Weigh,
    Weighing,
)

OWNERS = [WorkerId(0), WorkerId(1), WorkerId(4)]
MEMBERS = [*OWNERS, WorkerId(6)]
"""Worker 6 has joined and knows nothing yet."""
TABLE = [WorkerId(0), WorkerId(1), WorkerId(0), WorkerId(1)]


def new_compiler() -> Compiler:
    return Compiler(set(OWNERS))


def move(bin_id: int, worker: int) -> Move:
    return Move(BinId(bin_id), WorkerId(worker))


def bootstrap(server: int, joiner: int) -> Bootstrap:
    return Bootstrap(WorkerId(server), WorkerId(joiner))


def full_map(*owners: int) -> Map:
    return Map(tuple(WorkerId(owner) for owner in owners))


def configuration(time: int, sequence: int, moves: dict[int, int]) -> Configuration:
    return Configuration(time, sequence, {BinId(bin_id): WorkerId(worker) for bin_id, worker in moves.items()})


def one_set(sequence: int, *instructions: Instruction) -> list[Control]:
    return [Control(sequence, len(instructions), instruction) for instruction in instructions]


def decide(compiler: Compiler, time: int, *records: Any) -> list[CompiledCommand]:
    for record in records:
        compiler.add(time, record)
    return compiler.compile(time, TABLE, MEMBERS)


def reason(*records: Any) -> str:
    """Why the only set among `records` is refused."""
    [outcome] = decide(new_compiler(), 3, *records)
    assert isinstance(outcome, Refused)
    assert outcome.time == 3
    return outcome.reason


def test_a_set_of_moves_is_one_configuration():
    compiler = new_compiler()
    assert decide(compiler, 3, *one_set(7, move(2, 4), move(0, 1))) == [configuration(3, 7, {0: 1, 2: 4})]
    assert (compiler.sequence, compiler.through, compiler.times) == (7, 3, [])


def test_the_bins_of_a_configuration_ascend():
    [outcome] = decide(new_compiler(), 3, *one_set(7, move(3, 4), move(0, 1), move(2, 4)))
    assert isinstance(outcome, Configuration)
    assert list(outcome.moves) == [0, 2, 3]


def test_a_map_becomes_what_it_changes():
    assert decide(new_compiler(), 0, *one_set(0, full_map(0, 4, 0, 4))) == [configuration(0, 0, {1: 4, 3: 4})]


@pytest.mark.parametrize("instruction", [full_map(*TABLE), move(0, 0), Noop()])
def test_what_changes_nothing_is_accepted_all_the_same(instruction: Instruction):
    compiler = new_compiler()
    assert decide(compiler, 5, *one_set(2, instruction)) == [configuration(5, 2, {})]
    assert compiler.sequence == 2


def test_a_noop_fills_a_set_that_several_senders_make_up():
    assert decide(new_compiler(), 1, *one_set(0, Noop(), move(0, 4), Noop())) == [configuration(1, 0, {0: 4})]


def test_naming_a_bin_twice_alike_is_no_contradiction():
    assert decide(new_compiler(), 1, *one_set(0, move(0, 4), full_map(4, 1, 0, 1))) == [configuration(1, 0, {0: 4})]


def test_a_time_without_messages_decides_nothing():
    assert decide(new_compiler(), 9) == []


def test_a_bootstrap_becomes_a_handover():
    assert decide(new_compiler(), 3, *one_set(0, bootstrap(1, 6))) == [Handover(3, 0, WorkerId(1), WorkerId(6))]


def test_a_joiner_may_own_bins_after_its_bootstrap_only():
    compiler = new_compiler()
    [outcome] = decide(compiler, 2, Control(0, 1, move(0, 6)))
    assert isinstance(outcome, Refused)
    decide(compiler, 3, Control(1, 1, bootstrap(1, 6)))
    assert decide(compiler, 4, Control(2, 1, move(0, 6))) == [configuration(4, 2, {0: 6})]


def test_who_retires_owns_nothing_any_more():
    compiler = new_compiler()
    assert decide(compiler, 3, Control(0, 1, Retire(WorkerId(4)))) == [Retirement(3, 0, WorkerId(4))]
    [outcome] = decide(compiler, 4, Control(1, 1, move(0, 4)))
    assert isinstance(outcome, Refused)
    assert outcome.reason.startswith("a Move of bin 0 names worker 4, not among those that may own bins: workers 0, 1;")


def test_a_weigh_becomes_a_weighing():
    assert decide(new_compiler(), 3, *one_set(0, Weigh(WorkerId(4)))) == [Weighing(3, 0, WorkerId(4))]


@pytest.mark.parametrize("group", ["this", None])
def test_what_names_its_group_or_none_concerns_a_compiler(group: str | None):
    compiler = Compiler(set(OWNERS), "this")
    records = one_set(7, Move(BinId(2), WorkerId(4), group), Map(tuple(map(WorkerId, (0, 1, 4, 0))), group))
    assert decide(compiler, 3, *records) == [configuration(3, 7, {2: 4, 3: 0})]


def test_what_names_another_group_is_no_concern_of_a_compiler():
    """Be it wrong or right, its sequence is used up: for all groups alike."""
    compiler = Compiler(set(OWNERS), "this")
    strange: list[Instruction] = [Move(BinId(99), WorkerId(0), "that"), Map((WorkerId(77),), "that")]
    assert decide(compiler, 3, *one_set(7, move(2, 4), *strange)) == [configuration(3, 7, {2: 4})]
    assert decide(compiler, 4, *one_set(8, *strange)) == [configuration(4, 8, {})]
    assert compiler.sequence == 8


def test_a_group_does_not_excuse_a_set_that_is_not_complete():
    [outcome] = decide(Compiler(set(OWNERS), "this"), 3, Control(5, 2, Move(BinId(0), WorkerId(0), "that")))
    assert isinstance(outcome, Refused)
    assert outcome.reason.startswith("sequence 5 should have 2 message(s), but 1 came")


def test_the_last_owner_does_not_retire():
    compiler = Compiler({WorkerId(4)})
    [outcome] = decide(compiler, 3, Control(0, 1, Retire(WorkerId(4))))
    assert isinstance(outcome, Refused)
    assert outcome.reason == "worker 4 cannot retire, it is the last that may own bins"


def test_sets_of_one_time_apply_in_order_of_sequence_and_a_bin_takes_one_hop():
    """Set 5 takes bins 0 and 1 elsewhere, set 6 sends bin 0 on and bin 1 back."""
    records = [*one_set(6, move(0, 1), move(1, 1)), *one_set(5, move(0, 4), move(1, 4), move(2, 4))]
    assert decide(new_compiler(), 3, *records) == [configuration(3, 5, {2: 4}), configuration(3, 6, {0: 1})]


def test_each_time_builds_on_the_table_of_its_own():
    compiler = new_compiler()
    compiler.add(4, Control(1, 1, move(0, 4)))
    assert decide(compiler, 3, Control(0, 1, move(0, 4))) == [configuration(3, 0, {0: 4})]
    assert compiler.times == [4]
    moved = [WorkerId(4), *TABLE[1:]]
    assert compiler.compile(4, moved, MEMBERS) == [configuration(4, 1, {})]


REASONS: dict[str, tuple[list[Any], str]] = {
    "unknown bin": (one_set(0, move(4, 1)), "a Move names bin 4, but the bins are 0 to 3; name one of these"),
    "bin below zero": (one_set(0, move(-1, 1)), "a Move names bin -1, but the bins are 0 to 3; name one of these"),
    "unknown worker": (
        one_set(0, move(2, 3)),
        "a Move of bin 2 names worker 3, not among those that may own bins: workers 0, 1, 4; name one of these",
    ),
    "unknown workers in a map": (
        one_set(0, full_map(0, 9, 2, 2)),
        "a Map names workers 2, 9, not among those that may own bins: workers 0, 1, 4; name one of these",
    ),
    "short map": (
        one_set(0, full_map(0, 1, 4)),
        "a Map has 3 owners, but there are 4 bins; name one owner for each bin",
    ),
    "long map": (
        one_set(0, full_map(0, 1, 4, 0, 0)),
        "a Map has 5 owners, but there are 4 bins; name one owner for each bin",
    ),
    "incomplete": (
        [Control(5, 2, Noop())],
        "sequence 5 should have 2 message(s), but 1 came at time 3, which has passed; "
        "send the whole set again at one time, with a newer sequence",
    ),
    "delivered twice": (
        [Control(5, 1, move(0, 1)), Control(5, 1, move(0, 1))],
        "sequence 5 should have 1 message(s), but 2 came at time 3, which has passed; "
        "send the whole set again at one time, with a newer sequence",
    ),
    "counts differ": (
        [Control(5, 2, Noop()), Control(5, 3, Noop())],
        "messages of sequence 5 expect sets of 2 and of 3; "
        "send the set again with a newer sequence and one count, the number of its messages",
    ),
    "contradictory moves": (
        one_set(0, move(2, 4), move(1, 4), move(1, 0), move(2, 1)),
        "one set gives bin 1 to workers 0, 4; name each bin once in a set, or send two sets with two sequences",
    ),
    "a map against a move": (
        one_set(0, full_map(0, 0, 0, 0), move(3, 1)),
        "one set gives bin 3 to workers 0, 1; name each bin once in a set, or send two sets with two sequences",
    ),
    "bootstrap in company": (
        one_set(0, bootstrap(0, 6), Noop()),
        "a Bootstrap must be the only message at its time, but 2 came at time 3; send it again at a time of its own",
    ),
    "bootstrap of an owner": (
        one_set(0, bootstrap(4, 4)),
        "a Bootstrap names worker 4 as joiner, which knows already who owns what",
    ),
    "server does not know": (
        one_set(0, bootstrap(2, 6)),
        "a Bootstrap names worker 2, not among those that may own bins: workers 0, 1, 4; name one of these",
    ),
    "joiner is not a member": (
        one_set(0, bootstrap(0, 5)),
        "a Bootstrap names worker 5 as joiner, which is not a member; let it join, and send the command when it has",
    ),
    "retire with bins": (
        one_set(0, Retire(WorkerId(1))),
        "worker 1 cannot retire, it owns 2 bin(s); move them first",
    ),
    "retire in company": (
        one_set(0, Retire(WorkerId(4)), Noop()),
        "a Retire must be the only message at its time, but 2 came at time 3; send it again at a time of its own",
    ),
    "weighing in company": (
        one_set(0, Weigh(WorkerId(1)), move(0, 1)),
        "a Weigh must be the only message at its time, but 2 came at time 3; send it again at a time of its own",
    ),
    "weighing for a stranger": (
        one_set(0, Weigh(WorkerId(9))),
        "a Weigh names worker 9, not among those that may own bins: workers 0, 1, 4; name one of these",
    ),
    "retire of a stranger": (
        one_set(0, Retire(WorkerId(9))),
        "a Retire names worker 9, not among those that may own bins: workers 0, 1, 4; name one of these",
    ),
}


@pytest.mark.parametrize("case", REASONS)
def test_a_bad_set_is_refused_as_a_whole_with_a_reason(case: str):
    records, expected = REASONS[case]
    assert reason(*records) == expected
    assert reason(*reversed(records)) == expected


def test_one_bad_move_of_many_refuses_all_of_them():
    assert reason(*one_set(0, move(0, 1), move(1, 9), move(9, 1))).startswith("a Move names bin 9")


def test_a_reason_does_not_list_a_thousand_workers():
    compiler = Compiler({WorkerId(index) for index in range(1000)})
    compiler.add(0, Control(0, 1, move(0, 2000)))
    [outcome] = compiler.compile(0, TABLE, MEMBERS)
    assert isinstance(outcome, Refused)
    assert "own bins: workers 0, 1, 2, 3, 4, 5, 6, 7, …; " in outcome.reason


JUNK: list[tuple[Any, int | None, str]] = [
    ("move 3 to 4", None, "'move 3 to 4' came as a control message; send Control("),
    (None, None, "None came as a control message; send Control("),
    (object(), None, "a value of type object came as a control message; send Control("),
    (move(0, 1), None, "a value of type Move came as a control message; send Control("),
    (Control(-1, 1, Noop()), None, "a Control has the sequence -1; number the sets from 0 on"),
    (Control(10**5000, 1, Noop()), None, "a Control has the sequence a value of type int; number"),
    (Control("1", 1, Noop()), None, "a Control has the sequence '1'; number"),  # type: ignore[arg-type]
    (Control(True, 1, Noop()), None, "a Control has the sequence True; number"),
    (Control(2, 0, Noop()), 2, "a Control has the count 0; say how many messages its set has, at least 1"),
    (Control(2, 1.0, Noop()), 2, "a Control has the count a value of type float; say"),  # type: ignore[arg-type]
    (Control(2, 1, "Noop"), 2, "'Noop' came as an instruction; send Control("),  # type: ignore[arg-type]
    (Control(2, 1, Map([0, 0, 0, 0])), 2, "a Map of a value of type list came as an instr"),  # type: ignore[arg-type]
    (Control(2, 1, Map((0, "1"))), 2, "a Map has '1' where the number of a bin or worker"),  # type: ignore[arg-type]
    (Control(2, 1, Move(BinId(0), WorkerId(0), 7)), 2, "a Move names 7 as its group; nam"),  # type: ignore[arg-type]
    (Control(2, 1, Map((), b"g")), 2, "a Map names a value of type bytes as its group; "),  # type: ignore[arg-type]
    (Control(2, 1, Move(BinId(0), None)), 2, "a Move has None where the number"),  # type: ignore[arg-type]
    (Control(2, 1, Bootstrap([], WorkerId(0))), 2, "a Bootstrap has a value of type list wh"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("record", "sequence", "expected"), JUNK)
def test_a_record_that_is_no_proper_control_is_refused(record: Any, sequence: int | None, expected: str):
    [outcome] = decide(new_compiler(), 3, record)
    assert isinstance(outcome, Refused)
    assert (outcome.time, outcome.sequence) == (3, sequence)
    assert outcome.reason.startswith(expected)


def test_a_malformed_message_refuses_the_set_that_it_belongs_to():
    assert reason(Control(2, 2, move(0, 1)), Control(2, 2, "Noop")).startswith("'Noop' came")  # type: ignore[arg-type]


def test_malformed_messages_are_refused_in_the_same_order_whatever_their_order():
    junk: list[Any] = ["b", "a", Control(2, 1, "d"), Control(2, 1, "c")]  # type: ignore[arg-type]
    outcomes = decide(new_compiler(), 3, *junk)
    assert [type(outcome) for outcome in outcomes] == [Refused] * 3
    assert decide(new_compiler(), 3, *reversed(junk)) == outcomes


def test_bad_sets_do_not_hinder_good_ones_at_their_time():
    outcomes = decide(
        new_compiler(), 3, "junk", Control(1, 1, move(9, 9)), Control(2, 1, move(0, 4)), Control(3, 2, Noop())
    )
    assert [(type(outcome), outcome.sequence) for outcome in outcomes] == [
        (Refused, None),
        (Refused, 1),
        (Configuration, 2),
        (Refused, 3),
    ]


def test_a_bootstrap_in_company_is_refused_and_the_company_is_not():
    outcomes = decide(new_compiler(), 3, Control(1, 1, bootstrap(0, 6)), Control(2, 1, move(0, 4)))
    assert [type(outcome) for outcome in outcomes] == [Refused, Configuration]
    outcomes = decide(new_compiler(), 3, Control(1, 1, bootstrap(0, 6)), Control(2, 1, bootstrap(1, 6)))
    assert [type(outcome) for outcome in outcomes] == [Refused, Refused]
    outcomes = decide(new_compiler(), 3, Control(1, 1, bootstrap(0, 6)), "junk")
    assert [type(outcome) for outcome in outcomes] == [Refused, Refused]


def test_a_sequence_must_be_newer_than_the_last_accepted_one():
    compiler = new_compiler()
    decide(compiler, 0, Control(4, 1, move(0, 4)))
    for time, stale in ((1, 4), (2, 3)):
        assert decide(compiler, time, Control(stale, 1, move(1, 4))) == [
            Refused(
                time,
                stale,
                f"sequence {stale} is not newer than 4, the last that was accepted; "
                "send the set again with sequence 5 or more",
            )
        ]
    assert decide(compiler, 3, Control(5, 1, move(1, 4))) == [configuration(3, 5, {1: 4})]


def test_a_refused_sequence_does_not_stand_in_the_way_of_lower_ones():
    compiler = new_compiler()
    decide(compiler, 0, Control(2**60, 1, move(9, 9)))
    assert decide(compiler, 1, Control(0, 1, move(0, 4))) == [configuration(1, 0, {0: 4})]


def test_one_sequence_at_two_times_is_refused_at_both():
    """Whether its later part has arrived when its earlier part is decided makes no difference."""
    expected = (
        "sequence 5 was refused at time 1 and has messages at 2; all messages of a set have one time; "
        "send the whole set again at one time, with a newer sequence"
    )
    for ahead in (True, False):
        compiler = new_compiler()
        late = [Control(5, 2, move(0, 4)), Control(5, 2, move(1, 4))]
        if ahead:
            for control in late:
                compiler.add(2, control)
        [first] = decide(compiler, 1, Control(5, 2, move(0, 4)))
        assert isinstance(first, Refused)
        assert decide(compiler, 2, *([] if ahead else late)) == [Refused(2, 5, expected)]


def test_a_sequence_whose_first_part_is_complete_leaves_the_rest_stale():
    compiler = new_compiler()
    assert decide(compiler, 1, Control(5, 1, move(0, 4))) == [configuration(1, 5, {0: 4})]
    [rest] = decide(compiler, 2, Control(5, 1, move(1, 4)))
    assert isinstance(rest, Refused)


def test_refused_sequences_are_forgotten_when_too_many_or_overtaken():
    compiler = new_compiler()
    for sequence in range(REFUSED_MAX + 10):
        decide(compiler, sequence, Control(sequence, 2, Noop()))
    assert [sequence for sequence, _ in compiler.state().refused] == [*range(REFUSED_MAX)]
    decide(compiler, 10**6, Control(REFUSED_MAX - 2, 1, Noop()), Control(REFUSED_MAX + 1, 1, Noop()))
    assert compiler.state().refused == ()


def test_messages_of_a_compiled_time_are_our_own_mistake():
    compiler = new_compiler()
    decide(compiler, 3)
    with pytest.raises(AssertionError, match="at 3 after that time was compiled"):
        compiler.add(3, Control(0, 1, Noop()))
    with pytest.raises(AssertionError, match="time 3 was compiled already"):
        compiler.compile(3, TABLE, MEMBERS)


def test_times_are_compiled_in_order():
    compiler = new_compiler()
    compiler.add(2, Control(0, 1, Noop()))
    with pytest.raises(AssertionError, match="2 waits, so 3 is not next"):
        compiler.compile(3, TABLE, MEMBERS)


def test_a_joiner_goes_on_from_where_its_server_is():
    """The server has decided up to 3. Of the set at 4 it received bins 0 and 1, the joiner bins 1 and 2."""
    server, joiner = new_compiler(), new_compiler()
    parts = one_set(9, move(0, 4), move(1, 4), move(2, 4))
    decide(server, 3, Control(7, 1, move(0, 1)), Control(8, 2, Noop()))
    for control in parts[:2]:
        server.add(4, control)
    joiner.add(3, Control(8, 2, Noop()))
    for control in parts[1:]:
        joiner.add(4, control)
    joiner.restore(server.state())
    joiner.add(2, Control(6, 1, Noop()))
    assert (joiner.times, joiner.sequence) == ([4], 7)
    assert joiner.compile(3, TABLE, MEMBERS) == []
    assert decide(joiner, 4) == decide(server, 4, parts[2]) == [configuration(4, 9, {0: 4, 1: 4, 2: 4})]


def test_a_joiner_knows_what_was_refused():
    server, joiner = new_compiler(), new_compiler()
    decide(server, 3, Control(8, 2, Noop()))
    joiner.restore(server.state())
    assert decide(joiner, 4, Control(8, 1, Noop())) == decide(server, 4, Control(8, 1, Noop()))


def test_all_of_it_travels():
    compiler = new_compiler()
    decide(compiler, 0, Control(1, 1, move(0, 4)), Control(2, 2, Noop()))
    compiler.add(7, Control(3, 1, full_map(0, 1, 4, 0)))
    compiler.add(7, "junk")
    records: list[Any] = [
        *one_set(2**62, full_map(0, 1, 4, 0), move(1, 4), bootstrap(0, 6), Noop()),
        configuration(3, 7, {0: 1, 2: 4}),
        Handover(3, 7, WorkerId(0), WorkerId(4)),
        Retirement(3, 8, WorkerId(4)),
        Retire(WorkerId(4)),
        Refused(3, None, "why"),
        Malformed(None, "why"),
        compiler.state(),
    ]
    assert decode_rows(encode_rows(records)) == records
    assert isinstance(records[-1], CompilerState)
    assert [time for time, _ in records[-1].arrived] == [7]


def test_importing_the_module_is_enough_to_receive():
    encoded = encode_rows([Control(1, 1, full_map(0, 4))])
    program = f"import routing.commands; from framework.wire.codec import decode_rows; print(decode_rows({encoded!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[Control(sequence=1, count=1, instruction=Map(owners=(0, 4), group=None))]\n"
