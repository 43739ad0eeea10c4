"""Bins of a job that runs are moved by the worker that sends its commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from framework.errors import GraphError
from framework.launch.config import Config
from framework.launch.execute import execute
from framework.membership.members import WorkerId
from framework.worker.worker import Worker
from operators import BinOptions, ControlInput, Flow, Job
from operators.job.run_loop import feed_from, run_on_worker
from operators.job.steward import Steward
from routing.bins import BinId
from routing.commands import Move
from routing.errors import GoalRefused
from routing.migration.goals import Assign, GoalState, Pace, Rebalance
from routing.registry import commanded_on, groups_on, operators_on

EPOCHS_MAX = 100_000
ZERO, ONE = WorkerId(0), WorkerId(1)
FLUID = Pace("fluid")

Act = Callable[[Flow, Steward, int], bool]


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


def carried_out(act: Act) -> tuple[list[GoalState], dict[str, list[WorkerId]]]:
    """Feed a job of several operators on bins until `act`, called before every epoch, says that it has seen enough.

    What became of goals, and the owners of each operator's bins then. No count is wrong.
    """
    job, rows, controls, ended = Job("counts"), list[tuple[str, int]](), list[ControlInput](), list[bool]()
    owners: dict[str, list[WorkerId]] = {}

    @job.dataflow
    def counts(flow: Flow) -> None:
        pairs = flow.input("words").map(lambda word: (word, 1))
        own = ControlInput("own")
        commands = own.stream(flow.scope).broadcast()
        flow.output("apart", pairs.stateful_state_machine(count, initial=0, bins=8, control=commands, name="apart"))
        flow.output("counts", pairs.stateful_state_machine(count, initial=0, bins=16, name="count"))
        flow.output("again", pairs.stateful_state_machine(count, initial=0, bins=16, name="again"))
        few = BinOptions(8, group="few")
        flow.output("few", pairs.stateful_state_machine(count, initial=0, bins=few, name="few"))
        controls.append(own)

    def main(worker: Worker) -> list[GoalState] | None:
        flow = job.build(worker, lambda name: lambda epoch, some: rows.extend(some) if name == "counts" else None)
        controls.pop().close()

        def words() -> Iterator[list[str]]:
            for epoch in range(EPOCHS_MAX):
                if ended or (flow.steward is not None and act(flow, flow.steward, epoch)):
                    ended.append(True)
                    owners.update({one.name: list(one.table.owners) for one in operators_on(worker)})
                    return
                yield [f"w{epoch % 40}"] if flow.commanding else []

        run_on_worker(flow, partial(feed_from, {"words": words()}))
        return flow.steward.goals() if flow.steward is not None else None

    goals, _ = execute(main, Config(threads=2))
    final = Counter(word for word, _ in rows)
    assert sorted(rows) == sorted((word, n) for word, total in final.items() for n in range(1, total + 1))
    assert goals is not None
    return goals, owners


def finished(steward: Steward) -> bool:
    goals = steward.goals()
    return bool(goals) and all(goal.finished for goal in goals)


def test_bins_of_a_group_move_step_by_step_and_no_others():
    def act(flow: Flow, steward: Steward, epoch: int) -> bool:
        if epoch == 60:
            owners = dict.fromkeys(map(BinId, (0, 2, 4)), ONE)
            assert steward.start(Assign("bins16", owners), "move of 3 bins", FLUID) == 0
        return finished(steward)

    [goal], owners = carried_out(act)
    assert (goal.text, goal.status, goal.bins_moved, goal.bins) == ("move of 3 bins", "reached", 3, 3)
    assert goal.duration_s >= goal.stall_s_max >= 0
    assert goal.bytes_moved == goal.state_bytes > 0, "bins were weighed"
    half = [ZERO, ONE] * 8
    assert owners == {
        "apart": half[:8],
        "few": half[:8],
        "count": [ONE, ONE] * 3 + half[6:],
        "again": [ONE, ONE] * 3 + half[6:],
    }


def test_a_gap_is_timed_once(monkeypatch: pytest.MonkeyPatch):
    timers: list[float] = []

    def act(flow: Flow, steward: Steward, epoch: int) -> bool:
        if epoch == 60:
            after = flow.worker.after

            def counted(delay_s: float, callback: Callable[[], None]) -> None:
                timers.extend([delay_s] if delay_s > 1.0 else [])
                after(delay_s, callback)

            monkeypatch.setattr(flow.worker, "after", counted)
            steward.start(Assign("few", dict.fromkeys(map(BinId, range(8)), ONE)), "map", Pace("fluid", 3600.0))
        return epoch > 600

    [goal], _ = carried_out(act)
    assert (goal.status, goal.bins_moved) == ("failed", 1)
    assert len(timers) == 1


def test_each_gap_is_timed(monkeypatch: pytest.MonkeyPatch):
    """A job may have no epochs meanwhile. Here time passes for timers alone."""
    gap_s, timers = 3600.0, list[float]()

    def act(flow: Flow, steward: Steward, epoch: int) -> bool:
        if epoch == 60:
            after = flow.worker.after

            def passing(delay_s: float, callback: Callable[[], None]) -> None:
                timers.extend([delay_s] if delay_s > 1.0 else [])
                after(0.0 if delay_s > 1.0 else delay_s, callback)

            monkeypatch.setattr(flow.worker, "after", passing)
            monkeypatch.setattr(steward, "_clock", lambda: sum(timers))
            steward.start(Assign("few", dict.fromkeys(map(BinId, (0, 2, 4)), ONE)), "map", Pace("fluid", gap_s))
        return finished(steward) or epoch > 3000

    [goal], _ = carried_out(act)
    assert (goal.status, goal.bins_moved) == ("reached", 3)


def test_operators_are_shown_by_their_groups():
    def act(flow: Flow, steward: Steward, epoch: int) -> bool:
        groups = {name: [one.name for one in operators] for name, operators in groups_on(flow.worker).items()}
        assert groups == {"bins16": ["count", "again"], "few": ["few"]}
        assert [one.name for one in commanded_on(flow.worker)] == ["count", "again", "few"]
        return True

    assert carried_out(act)[0] == []


def test_all_groups_are_rebalanced_by_what_their_bins_weigh():
    def act(flow: Flow, steward: Steward, epoch: int) -> bool:
        if epoch == 60:
            for group, bins in (("bins16", 16), ("few", 8)):
                steward.start(Assign(group, dict.fromkeys(map(BinId, range(bins)), ZERO)), "map")
        if epoch > 60 and finished(steward) and len(steward.goals()) == 2:
            steward.start(Rebalance(), "rebalance", FLUID)
        return len(steward.goals()) == 3 and finished(steward)

    goals, owners = carried_out(act)
    assert [(goal.number, goal.status) for goal in goals] == [(0, "reached"), (1, "reached"), (2, "reached")]
    assert all(set(table) == {ZERO, ONE} for table in owners.values())
    assert owners["count"] == owners["again"]


def test_what_somebody_else_commands_meanwhile_stays_so():
    def act(flow: Flow, steward: Steward, epoch: int) -> bool:
        if epoch == 60:
            steward.start(Assign("few", dict.fromkeys(map(BinId, (0, 2, 4)), ONE)), "map", FLUID)
            flow.command(Move(BinId(6), ONE), Move(BinId(1), ZERO, "few"))
        return finished(steward)

    [goal], owners = carried_out(act)
    assert goal.status == "reached"
    assert owners["few"] == [ONE, ZERO, ONE, ONE, ONE, ONE, ONE, ONE]
    assert owners["count"][6] == ONE, "a command without a group is for all"
    assert owners["count"][1] == ONE


def test_a_cancel_ends_what_moves_and_what_cannot_be_is_refused():
    def act(flow: Flow, steward: Steward, epoch: int) -> bool:
        if epoch == 60:
            assert steward.cancel() == []
            with pytest.raises(GoalRefused, match="there is no bin 16; the bins are 0 to 15"):
                steward.start(Assign("bins16", {BinId(16): ONE}), "move")
            with pytest.raises(GoalRefused, match="worker 5 may own no bins; name one of 0, 1 for bin 3"):
                steward.start(Assign("bins16", {BinId(3): WorkerId(5)}), "move")
            steward.start(Assign("bins16", dict.fromkeys(map(BinId, range(16)), ONE)), "map", Pace("fluid", 3600.0))
        if any(goal.bins_moved and not goal.finished for goal in steward.goals()):
            assert [goal.status for goal in steward.cancel()] == ["cancelled"]
        return finished(steward) and not steward.busy

    [goal], owners = carried_out(act)
    assert (goal.status, goal.bins_moved, goal.bins) == ("cancelled", 1, 8)
    assert Counter(owners["count"]) == {ZERO: 7, ONE: 9}


def test_what_has_not_moved_when_the_inputs_end_stays():
    def act(flow: Flow, steward: Steward, epoch: int) -> bool:
        if epoch == 60:
            steward.start(Assign("bins16", dict.fromkeys(map(BinId, range(16)), ONE)), "map", Pace("fluid", 3600.0))
        return epoch > 60

    [goal], _ = carried_out(act)
    assert (goal.status, goal.reason) == ("failed", "the job's inputs have ended, and its bins move no more")


@pytest.mark.parametrize(("bins", "group"), [(16, ""), (8, "of my own")])
def test_a_group_has_as_many_bins_for_each_operator(bins: int, group: str):
    def main(worker: Worker) -> None:
        job = Job("counts")

        @job.dataflow
        def counts(flow: Flow) -> None:
            pairs = flow.input("words").map(lambda word: (word, 1))
            for name, options in (("one", BinOptions(bins, group=group)), ("other", BinOptions(16, group=group))):
                flow.output(name, pairs.stateful_state_machine(count, initial=0, bins=options, name=name))

        flow = job.build(worker, lambda _: lambda epoch, some: None)
        run_on_worker(flow, partial(feed_from, {"words": iter([["tea"]])}))

    if bins == 16:
        execute(main)
        return
    with pytest.raises(GraphError, match="'one' and 'other' are both of group 'of my own' and differ in bins"):
        execute(main)
