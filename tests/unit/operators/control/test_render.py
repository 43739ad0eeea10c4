"""What the command prints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework.membership.members import WorkerId
from framework.progress.order import Product
from operators.control.job_messages import (
    Answer,
    ChangeState,
    Explanation,
    JobStatus,
    OperatorRow,
    WorkerRow,
    WorkersBlocker,
)
from operators.control.render import (
    answer_lines,
    change_line,
    change_summary,
    explain_page,
    status_page,
    unmoved_lines,
)
from operators.control.worker_messages import BinTable, BlockerState, LateRecords
from routing.bins import BinId
from routing.migration.plan import Plan, Step, Transfer

MOVING = ChangeState(
    text="scale to 4",
    finished=False,
    failure=None,
    cancelled=False,
    waits_for="18 bins are to move",
    bins_moved=41,
    bins=59,
    state_bytes=1_258_291,
    stall_s_max=0.061,
    duration_s=1.5,
)
MOVED = replace(MOVING, text="rebalance", finished=True, waits_for="", bins_moved=59, duration_s=3.2)
LINE = "scale to 4  [######....]  41 of 59 bins  1.2 MiB  longest stall 61 ms"
ZERO, ONE = WorkerId(0), WorkerId(1)


def test_a_status_page():
    worker = WorkerRow(ZERO, 0, 4242, "member", (41,), False, 4, 1301, silent=None, unstepped_s=0.4, stack=())
    late = replace(worker, worker=ONE, process=1, pid=4243, state="leaving", frontier=None, silent="worker 1 is busy")
    status = JobStatus(
        job="wordcount",
        pid=4241,
        running_s=75,
        frontier=(41,),
        workers=(worker, late),
        operators=(OperatorRow("0.3", "map", (41,), records_per_s=12_345.6, busy=0.25),),
        bins=(BinTable("0.4", "count", (ZERO, ZERO, ZERO, ZERO, ONE), (42,), {BinId(0): 1300, BinId(2): 1}),),
        late=(LateRecords("0.4", "count", 118_000, 118_004), LateRecords("0.6", "visits", 0, 12)),
        held="2,048 bytes of its outputs are unread, and the limit is 2,000",
        moving=MOVED,
        scale=MOVING,
    )
    assert (
        status_page(status)
        == """\
wordcount   2 processes, 2 workers   running for 1 min 15 s   complete before epoch 41

worker  process   pid    state  epoch  bins   keys
0             0  4242   member     41     4  1,301
1             1  4243  leaving      ?     ?      ?  no answer

operator  path  epoch  records/s  busy
map       0.3      41     12,346   25%

operator on bins  bins by worker  bins   keys  moving
count             0: 4  1: 1         5  1,301       1

nothing is taken in: 2,048 bytes of its outputs are unread, and the limit is 2,000

118,000 of 118,004 records were late for 'count' (0.4)

scale to 4  [######....]  41 of 59 bins  1.2 MiB  longest stall 61 ms

worker 1 is busy"""
    )


def test_a_worker_that_does_not_answer_or_step_is_shown_with_where_it_is():
    stack = ("job.py:4, in <module>", "  work(3)", "job.py:9, in work", "  while busy():")
    answers = WorkerRow(ZERO, 0, 4242, "member", (41,), False, 4, 1301, silent=None, unstepped_s=2.0, stack=stack)
    busy = replace(answers, worker=ONE, frontier=None, silent="worker 1 is busy")
    stuck = replace(busy, worker=WorkerId(2), silent="worker 2 is busy", unstepped_s=75.0)
    unread = replace(stuck, worker=WorkerId(3), stack=("<string>:1, in <lambda>",))
    status = JobStatus("slow", 4241, 75, (41,), (answers, busy, stuck, unread), (), (), (), None, None, None)
    assert (
        status_page(status)
        == """\
slow   1 process, 4 workers   running for 1 min 15 s   complete before epoch 41

worker  process   pid   state  epoch  bins   keys
0             0  4242  member     41     4  1,301
1             0  4242  member      ?     ?      ?               no answer
2             0  4242  member      ?     ?      ?  no step for 1 min 15 s
3             0  4242  member      ?     ?      ?  no step for 1 min 15 s

worker 1 is busy; it is in job.py:9, in work: while busy():
worker 2 has not stepped for 1 min 15 s; it is in job.py:9, in work: while busy():
worker 3 has not stepped for 1 min 15 s; it is in <string>:1, in <lambda>"""
    )


def test_a_status_page_fits_its_terminal():
    """At 50 columns `path` and `pid` have gone; at 19 lines workers are folded, and those that need a look stay."""
    member = WorkerRow(ZERO, 0, 4242, "member", (41,), False, 9, 1301, silent=None, unstepped_s=0.0, stack=())
    workers = [replace(member, worker=WorkerId(id_), process=id_) for id_ in range(7)]
    silent = "worker 5 is busy in a function of the job, or waits for input"
    workers[5] = replace(workers[5], frontier=None, silent=silent)
    long = "split into words that are very long"
    status = JobStatus(
        job="wordcount",
        pid=4241,
        running_s=75,
        frontier=(41,),
        workers=tuple(workers),
        operators=(
            OperatorRow("0.3", long, (41,), records_per_s=12_345.6, busy=0.25),
            *(OperatorRow(f"0.{path}", "map", (41,), records_per_s=12.0, busy=0.0) for path in range(4, 7)),
        ),
        bins=(BinTable("0.4", "count", tuple(WorkerId(bin_id % 7) for bin_id in range(64)), (), {BinId(0): 1300}),),
        late=(),
        held=None,
        moving=None,
        scale=None,
    )
    page = status_page(status, 50, 19)
    assert (
        page
        == """\
wordcount   7 processes, 7 workers
running for 1 min 15 s   complete before epoch 41

worker   state  epoch  bins   keys
0       member     41     9  1,301
5       member      ?     ?      ?  no answer
and 5 more

operator                    epoch  records/s  busy
split into words that are…     41     12,346   25%
map                            41         12    0%
map                            41         12    0%
map                            41         12    0%

operator on bins  bins by worker      keys  moving
count             0: 10  1: 9  2: …  1,300       0

worker 5 is busy in a function of the job, or
waits for input"""
    )


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (200, LINE),
        (80, LINE),
        (len(LINE) + 1, LINE),
        (len(LINE), "scale to 4  [######....]  41 of 59 bins  1.2 MiB"),
        (50, "scale to 4  [######....]  41 of 59 bins  1.2 MiB"),
        (40, "scale to 4  [######....]  41 of 59 bins"),
        (30, "scale to 4  41 of 59 bins"),
        (12, "scale to 4"),
        (8, "scale t"),
        (1, ""),
        (0, ""),
    ],
)
def test_a_change_is_told_in_a_line_that_fits_and_what_matters_less_goes_first(width: int, line: str):
    """A line as long as the terminal is wide would wrap."""
    assert change_line(MOVING, width) == line


@pytest.mark.parametrize("width", [50, 80, 200])
@pytest.mark.parametrize("moved", [0, 1, 58, 59])
def test_whatever_is_told_of_a_change_fits(width: int, moved: int):
    text = "leave of worker 12345, and then some more, that nobody would call a change by"
    for change in (MOVING, replace(MOVING, text=text), replace(MOVING, bins=0, waits_for="x" * 300)):
        assert len(change_line(replace(change, bins_moved=moved), width)) < width


@pytest.mark.parametrize(
    ("moved", "bar"),
    [(0, "[..........]"), (5, "[..........]"), (6, "[#.........]"), (58, "[#########.]"), (59, "[##########]")],
)
def test_a_bar_is_full_once_all_bins_have_moved(moved: int, bar: str):
    assert bar in change_line(replace(MOVING, bins_moved=moved), 200)


def test_before_bins_move_it_says_what_is_waited_for_and_in_the_end_what_came_of_it():
    assert change_line(replace(MOVING, bins=0), 80) == "scale to 4  18 bins are to move"
    assert change_line(replace(MOVING, bins=0), 30) == "scale to 4"
    assert change_line(MOVED, 80) == "rebalance  is done"
    assert change_line(replace(MOVED, failure="superseded by scale to 3"), 80) == "rebalance  superseded by scale to 3"
    assert "41 of 1 bin " not in change_line(replace(MOVING, bins=1, bins_moved=1), 80)
    assert "1 of 1 bin  " in change_line(replace(MOVING, bins=1, bins_moved=1), 80)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (MOVED, "moved 59 bins, 1.2 MiB, in 3.2 s, longest stall 61 ms"),
        (
            replace(MOVED, bins_moved=1, bins=1, state_bytes=12, stall_s_max=0.002, duration_s=0.009),
            "moved 1 bin, 12 bytes, in 9 ms, longest stall 2 ms",
        ),
        (
            replace(MOVED, cancelled=True, bins_moved=41),
            "moved 41 bins, 1.2 MiB, in 3.2 s, longest stall 61 ms; cancelled, 18 bins stayed",
        ),
        (
            replace(MOVED, cancelled=True, bins_moved=58),
            "moved 58 bins, 1.2 MiB, in 3.2 s, longest stall 61 ms; cancelled, 1 bin stayed",
        ),
        (replace(MOVED, bins=0, bins_moved=0), "nothing to move: every bin is where it should be"),
        (replace(MOVED, bins=0, joined=(3,)), "1 process joined (3)"),
        (
            replace(MOVED, joined=(4,), left=(3, 2)),
            "1 process joined (4), 2 processes left (3, 2), moved 59 bins, 1.2 MiB, in 3.2 s, longest stall 61 ms",
        ),
        (
            replace(MOVED, failure="superseded by scale to 3", bins=0, bins_moved=0, state_bytes=0),
            "failed: superseded by scale to 3",
        ),
    ],
)
def test_what_a_change_did(change: ChangeState, said: str):
    assert change_summary(change) == said


def plan(*bins: int) -> Plan:
    return Plan(tuple(Step((Transfer(BinId(bin_id), ZERO, ONE, 10),)) for bin_id in bins))


FIRST = "step  bins  bytes  bin: from→to\n   0     1     10  3: 0→1"


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        (Answer(joins=2, plans={"bins8": plan(3)}), f"2 processes would join\n{FIRST}"),
        (Answer(leaves=(5, 4), plans={"bins8": plan()}), "2 processes would leave: 5, 4"),
        (Answer(plans={"bins8": plan(3), "bins9": plan()}), FIRST),
        (Answer(plans={"a": plan(3), "b": plan(3)}), f"group a:\n{FIRST}\ngroup b:\n{FIRST}"),
        (Answer(plans={"bins8": plan()}), "nothing to move"),
        (Answer(), "nothing to do: there are as many processes"),
    ],
)
def test_what_a_change_would_do(answer: Answer, lines: str):
    assert answer_lines(answer) == lines


@pytest.mark.parametrize(
    ("unmoved", "line"),
    [
        ((), ""),
        (
            ("sums",),
            "'sums' keeps its keys on the workers that the job began with, and gains nothing from more; put it on bins",
        ),
        (
            ("a", "b"),
            "'a', 'b' keep their keys on the workers that the job began with, and gain nothing from more; "
            "put them on bins",
        ),
    ],
)
def test_whom_a_change_does_not_help(unmoved: tuple[str, ...], line: str):
    assert unmoved_lines(Answer(unmoved=unmoved)) == line


def test_an_explanation_of_records_in_a_loop_and_of_what_is_under_way():
    via = ("next", *(f"o{number}" for number in range(20)), "probe")
    heard = BlockerState("0.4.2", "next", "records", 0, Product(4, 2), 3, 4, via)
    blocker = WorkersBlocker("0.4.2", "next", "records", 0, Product(4, 2), 3, 4, via, worker=ONE)
    answer = Explanation(path="0.9", name="probe", frontier=(4,), held=(), under_way=(), silent={})
    assert (
        explain_page(replace(answer, held=(blocker,)))
        == """\
'probe' (0.9) waits at epoch 4
  worker 1 has 3 records at (4, 2) before input 0 of 'next' (0.4.2)
    next → o0 → o1 → o2 → o3 → o4 → … → o15 → o16 → o17 → o18 → o19 → probe"""
    )
    under_way = explain_page(replace(answer, under_way=(heard,)))
    assert under_way.splitlines()[1].startswith("no worker holds what it waits for: it is on its way")
    assert "  3 records at (4, 2) before input 0" in under_way
    unheard = explain_page(replace(answer, under_way=(heard,), silent={WorkerId(2): "worker 2 is busy"}))
    assert unheard.splitlines()[1].startswith("none that answered holds what it waits for")
    assert unheard.endswith("worker 2 is busy")
    assert explain_page(replace(answer, frontier=())) == ("'probe' (0.9) is complete: nothing can come to it any more")
