"""What the command prints."""

from __future__ import annotations

from typing import Any

from operators.control.render import change_line, explain_page, plan_line, scale_summary, status_page, summary_line

PLAN: dict[str, Any] = {
    "plan": 3,
    "finished": True,
    "failure": None,
    "cancelled": False,
    "duration_s": 3.2,
    "stall_s_max": 0.042,
    "steps_done": 12,
    "steps": 12,
    "bins_moved": 64,
    "bins": 64,
    "state_bytes": 3_500_000,
}
SCALE: dict[str, Any] = {
    "goal": "scale to 1",
    "finished": False,
    "failure": None,
    "waits_for": "worker 1 owns bins",
    "joined": [],
    "left": [3, 2],
    "bins_moved": 1,
    "state_bytes": 2048,
    "duration_s": 1.5,
    "stall_s_max": 0.042,
}
STOPPED = PLAN | {"cancelled": True, "steps_done": 3, "bins_moved": 1}


def test_a_status_page():
    worker = {
        "process": 0,
        "pid": 4242,
        "state": "member",
        "frontier": [41],
        "congested": False,
        "bins": 4,
        "keys": 1301,
        "silent": None,
    }
    late = {**worker, "process": 1, "pid": 4243, "state": "leaving", "frontier": None, "silent": "worker 1 is busy"}
    status = {
        "job": "wordcount",
        "running_s": 75,
        "frontier": [41],
        "workers": [{"worker": 0, **worker}, {"worker": 1, **late}],
        "operators": [{"name": "map", "path": "0.3", "frontier": [41], "records_per_s": 12_345.6, "busy": 0.25}],
        "bins": [{"name": "count", "owners": [0, 0, 0, 0, 1], "pending": [42], "keys": {"0": 1300, "2": 1}}],
        "plan": PLAN,
        "scale": SCALE,
    }
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
    assert plan_line(PLAN | {"finished": False, "steps_done": 3, "bins_moved": 16}) == (
        "plan 3: 3 of 12 steps, 16 of 64 bins, 3.2 s"
    )
    assert plan_line(STOPPED) == "plan 3 was cancelled after 3 of 12 steps, 1 of 64 bins"
    assert plan_line(PLAN | {"failure": "the job has ended"}).endswith("64 of 64 bins: the job has ended")
    assert summary_line(PLAN) == "moved 64 bins, 3.3 MiB, in 3.2 s, longest stall 42 ms"
    assert summary_line(STOPPED) == ("moved 1 bin, 3.3 MiB, in 3.2 s, longest stall 42 ms; cancelled, 63 bins stayed")
    assert summary_line(PLAN | {"failure": "step 0 was refused"}).startswith("failed: step 0 was refused; moved 64")


def test_an_explanation_of_records_in_a_loop_and_of_what_is_under_way():
    blocker = {
        "worker": 1,
        "name": "next",
        "path": "0.4.2",
        "kind": "records",
        "port": 0,
        "time": [4, 2],
        "count": 3,
        "arrives": 4,
        "via": ["next", *(f"o{number}" for number in range(20)), "probe"],
    }
    answer: dict[str, Any] = {"name": "probe", "path": "0.9", "frontier": [4], "silent": {}}
    assert (
        explain_page({**answer, "held": [blocker], "under_way": []})
        == """\
'probe' (0.9) waits at epoch 4
  worker 1 has 3 records at (4, 2) before input 0 of 'next' (0.4.2)
    next → o0 → o1 → o2 → o3 → o4 → … → o15 → o16 → o17 → o18 → o19 → probe"""
    )
    under_way = explain_page({**answer, "held": [], "under_way": [blocker]})
    assert under_way.splitlines()[1].startswith("no worker holds what it waits for: it is on its way")
    assert "  3 records at (4, 2) before input 0" in under_way
    unheard = explain_page({**answer, "held": [], "under_way": [blocker], "silent": {"2": "worker 2 is busy"}})
    assert unheard.splitlines()[1].startswith("none that answered holds what it waits for")
    assert unheard.endswith("worker 2 is busy")
    assert explain_page({**answer, "frontier": [], "held": [], "under_way": []}) == (
        "'probe' (0.9) is complete: nothing can come to it any more"
    )


def test_what_a_scale_did_and_would_do():
    assert scale_summary(SCALE) == "2 processes left (3, 2), moved 1 bin, 2.0 KiB, in 1.5 s, longest stall 42 ms"
    failed = scale_summary({**SCALE, "left": [], "failure": "process 4 did not join: it ended"})
    assert failed.splitlines() == [
        "failed: process 4 did not join: it ended",
        "no process joined or left, moved 1 bin, 2.0 KiB, in 1.5 s, longest stall 42 ms",
    ]
    assert change_line({"joins": 2, "leaves": []}) == "2 processes would join"
    assert change_line({"joins": 0, "leaves": [5]}) == "1 process would leave: 5"
    assert change_line({"joins": 0, "leaves": []}) == "nothing to do: there are as many processes"
