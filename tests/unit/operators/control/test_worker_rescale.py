"""Whether bins can be moved and workers changed, and by which worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from framework.launch.config import Config
from framework.launch.execute import execute
from framework.membership.members import WorkerId
from framework.worker.worker import Worker
from operators import BinOptions, ControlInput, Flow, Job
from operators.admin.errors import BadRequest
from operators.control.worker_messages import GoalShare, StartAssign, Unmoved
from operators.control.worker_rescale import assignment, check_may_leave, check_rescalable, goal_share, steward_of
from operators.job.run_loop import feed_from, run_on_worker
from routing.bins import BinId
from routing.migration.goals import Assign, Pace, Rebalance

ZERO = WorkerId(0)


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


def on_bins(*groups: str) -> Callable[[Flow], None]:
    def build(flow: Flow) -> None:
        pairs = flow.input("words").map(lambda word: (word, 1))
        for bins, group in enumerate(groups, start=1):
            options = BinOptions(2**bins, group=group)
            flow.output(group, pairs.stateful_state_machine(count, initial=0, bins=options, name=group))

    return build


def by_hash(flow: Flow) -> None:
    flow.output("counts", flow.input("words").map(lambda word: (word, 1)).state_machine(count, initial=0, name="fixed"))


def of_its_own(flow: Flow) -> None:
    own = ControlInput("own")
    pairs = flow.input("words").map(lambda word: (word, 1))
    commands = own.stream(flow.scope).broadcast()
    flow.output("own", pairs.stateful_state_machine(count, initial=0, control=commands, bins=2, name="own"))
    flow.output("job's", pairs.stateful_state_machine(count, initial=0, bins=2, name="job's"))
    own.close()


def ask(build: Callable[[Flow], None], question: Callable[[Flow], None], threads: int = 1) -> None:
    """Ask on every worker, while the job runs."""
    job, asked = Job("counts"), list[WorkerId]()
    job.dataflow(build)

    def main(worker: Worker) -> None:
        flow = job.build(worker, lambda _: lambda epoch, some: None)

        def words() -> Iterator[list[str]]:
            yield ["tea"]
            question(flow)
            asked.append(worker.id)
            while len(asked) < threads:
                yield []

        run_on_worker(flow, partial(feed_from, {"words": words()}))

    execute(main, Config(threads=threads))
    assert sorted(asked) == list(range(threads))


def request(*owners: int, group: str | None = None, complete: bool = False) -> StartAssign:
    return StartAssign(
        "it", group, {BinId(index): WorkerId(each) for index, each in enumerate(owners)}, complete, Pace()
    )


def test_an_assignment_is_for_the_group_that_is_named_or_the_only_one():
    def one(flow: Flow) -> None:
        assert assignment(flow, request(0)) == Assign("few", {BinId(0): ZERO})
        assert assignment(flow, request(0, 0, complete=True)) == Assign("few", {BinId(0): ZERO, BinId(1): ZERO})
        with pytest.raises(BadRequest, match="there are 2 bins, but 3 owners; name one for each bin"):
            assignment(flow, request(0, 0, 0, complete=True))

    def two(flow: Flow) -> None:
        assert assignment(flow, request(0, group="many")) == Assign("many", {BinId(0): ZERO})
        assert assignment(flow, request(*[0] * 4, group="many", complete=True)).group == "many"
        assert assignment(flow, request(0, group="none")).group == "none", "the controller refuses it"
        with pytest.raises(BadRequest, match="several groups; say which one, with --group: few, many"):
            assignment(flow, request(0))

    ask(on_bins("few"), one)
    ask(on_bins("few", "many"), two)


def test_the_first_worker_moves_bins_and_says_how_goals_are_doing():
    def question(flow: Flow) -> None:
        if not flow.commanding:
            with pytest.raises(BadRequest, match="worker 1 sends no commands, worker 0 does"):
                steward_of(flow)
            assert goal_share(flow.worker, flow, 0) == GoalShare(0, None, None)
            return
        steward = steward_of(flow)
        assert steward is flow.steward
        assert goal_share(flow.worker, flow, 0).goal is None
        number = steward.start(Rebalance(), "rebalance")
        [goal] = steward.goals()
        assert goal_share(flow.worker, flow, number) == GoalShare(0, None, goal)
        assert goal_share(flow.worker, flow, number + 1) == GoalShare(0, None, None)

    ask(on_bins("few"), question, threads=2)


def test_without_bins_of_the_job_there_is_nothing_to_move():
    def question(flow: Flow) -> None:
        with pytest.raises(BadRequest, match="no operator of this job keeps its state on bins that can be moved"):
            steward_of(flow)

    ask(by_hash, question)


def test_operators_that_keep_their_keys_are_named():
    ask(by_hash, lambda flow: _is(check_rescalable(flow.worker), Unmoved(("fixed",))))
    ask(on_bins("few"), lambda flow: _is(check_rescalable(flow.worker), Unmoved(())))


def test_workers_of_operators_with_commands_of_their_own_do_not_change():
    def question(flow: Flow) -> None:
        with pytest.raises(BadRequest, match="cannot change: 'own' listen to a control stream of their own"):
            check_rescalable(flow.worker)
        with pytest.raises(BadRequest, match="cannot change: 'own'"):
            check_may_leave(flow)

    ask(of_its_own, question)


def test_who_feeds_the_job_stays():
    def question(flow: Flow) -> None:
        if flow.commanding:
            with pytest.raises(BadRequest, match="worker 0 cannot leave: it feeds the job and sends its commands"):
                check_may_leave(flow)

    ask(on_bins("few"), question, threads=2)


def _is(one: object, other: object) -> None:
    assert one == other
