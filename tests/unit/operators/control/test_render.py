"""What the command prints."""

from __future__ import annotations

from dataclasses import replace

from framework.membership.members import WorkerId
from framework.progress.order import Product
from operators.control.job_messages import (
    Explanation,
    JobStatus,
    OperatorRow,
    PlanStatus,
    ScaleAnswer,
    ScaleState,
    WorkerRow,
    WorkersBlocker,
)
from operators.control.render import change_line, explain_page, plan_line, scale_summary, status_page, summary_line
from operators.control.worker_messages import BinTable, BlockerState
from routing.bins import BinId

PLAN = PlanStatus(
    plan=3,
    finished=True,
    failure=None,
    cancelled=False,
    duration_s=3.2,
    stall_s_max=0.042,
    steps_done=12,
    steps=12,
    bins_moved=64,
    bins=64,
    state_bytes=3_500_000,
)
SCALE = ScaleState(
    goal="scale to 1",
    finished=False,
    failure=None,
    log=(),
    waits_for="worker 1 owns bins",
    joined=(),
    left=(3, 2),
    bins_moved=1,
    state_bytes=2048,
    duration_s=1.5,
    stall_s_max=0.042,
)
STOPPED = replace(PLAN, cancelled=True, steps_done=3, bins_moved=1)
ZERO, ONE = WorkerId(0), WorkerId(1)


def test_a_status_page():
    worker = WorkerRow(ZERO, 0, 4242, "member", (41,), congested=False, bins=4, keys=1301, silent=None)
    late = replace(worker, worker=ONE, process=1, pid=4243, state="leaving", frontier=None, silent="worker 1 is busy")
    status = JobStatus(
        job="wordcount",
        pid=4241,
        running_s=75,
        frontier=(41,),
        workers=(worker, late),
        operators=(OperatorRow("0.3", "map", (41,), records_per_s=12_345.6, busy=0.25),),
        bins=(BinTable("0.4", "count", (ZERO, ZERO, ZERO, ZERO, ONE), (42,), {BinId(0): 1300, BinId(2): 1}),),
        plan=PLAN,
        scale=SCALE,
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

plan 3 is complete: 12 of 12 steps, 64 of 64 bins

scale to 1: 1 bin moved, worker 1 owns bins

worker 1 is busy"""
    )


def test_what_a_plan_does_and_did():
    assert plan_line(replace(PLAN, finished=False, steps_done=3, bins_moved=16)) == (
        "plan 3: 3 of 12 steps, 16 of 64 bins, 3.2 s"
    )
    assert plan_line(STOPPED) == "plan 3 was cancelled after 3 of 12 steps, 1 of 64 bins"
    assert plan_line(replace(PLAN, failure="the job has ended")).endswith("64 of 64 bins: the job has ended")
    assert summary_line(PLAN) == "moved 64 bins, 3.3 MiB, in 3.2 s, longest stall 42 ms"
    assert summary_line(STOPPED) == ("moved 1 bin, 3.3 MiB, in 3.2 s, longest stall 42 ms; cancelled, 63 bins stayed")
    assert summary_line(replace(PLAN, failure="step 0 was refused")).startswith("failed: step 0 was refused; moved 64")


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


def test_what_a_scale_did_and_would_do():
    assert scale_summary(SCALE) == "2 processes left (3, 2), moved 1 bin, 2.0 KiB, in 1.5 s, longest stall 42 ms"
    failed = scale_summary(replace(SCALE, left=(), failure="process 4 did not join: it ended"))
    assert failed.splitlines() == [
        "failed: process 4 did not join: it ended",
        "no process joined or left, moved 1 bin, 2.0 KiB, in 1.5 s, longest stall 42 ms",
    ]
    assert change_line(ScaleAnswer(2, (), begun=False)) == "2 processes would join"
    assert change_line(ScaleAnswer(0, (5,), begun=False)) == "1 process would leave: 5"
    assert change_line(ScaleAnswer(0, (), begun=False)) == "nothing to do: there are as many processes"
