"""An input of a broker: what is staged, what a commit decides, and at which epoch it is released."""

from __future__ import annotations

from itertools import count

import pytest

from operators.broker.intake import BatchId, Committed, Decision, Intake, Release
from operators.broker.segments import Extent
from operators.errors import RequestRefused

_places = count()


def extent() -> Extent:
    return Extent(0, next(_places), 1)


def staged(intake: Intake, attempt: str, query: str, batch: int, parts: int = 1, now_s: float = 0.0) -> list[Extent]:
    """Stage an attempt of so many parts with a row each, completely."""
    assert intake.open(attempt, query, batch, now_s)
    extents = [extent() for _ in range(parts)]
    for one in extents:
        intake.stage(attempt, one, 1)
    intake.complete(attempt, parts, now_s)
    return extents


def released(intake: Intake, query: str, batch: int) -> int:
    """Commit an empty batch; the epoch at which it is released."""
    assert intake.commit(query, batch, []).new
    return intake.release().epoch


def test_a_commit_releases_the_attempts_it_names_at_the_batchs_own_number():
    intake = Intake("lines")
    first = staged(intake, "a", "q", 0, 2)
    second = staged(intake, "b", "q", 0)
    assert intake.commit("q", 0, ["a", "b"]) == Committed(1, True, [])
    assert list(intake.waiting) == [Decision(BatchId("q", 0), [*first, *second], 3, False)]
    assert intake.release() == Release("lines", 0, [*first, *second], 3, False)
    assert (intake.attempts, len(intake.waiting)) == ({}, 0)


def test_an_attempt_that_a_commit_names_twice_counts_once():
    intake = Intake("lines")
    extents = staged(intake, "a", "q", 0)
    intake.commit("q", 0, ["a", "a"])
    assert intake.release() == Release("lines", 0, extents, 1, False)


def test_attempts_of_the_batch_that_the_commit_does_not_name_are_dropped():
    """A speculative task was slower, or one failed after it had staged all."""
    intake = Intake("lines")
    kept = staged(intake, "a", "q", 0)
    loser = staged(intake, "b", "q", 0)
    other = staged(intake, "c", "another query", 0)
    assert intake.commit("q", 0, ["a"]).dropped == loser
    assert intake.release().extents == kept
    assert intake.attempts["c"].extents == other


def test_a_batch_that_is_committed_again_is_acknowledged_and_releases_nothing():
    intake = Intake("lines")
    for batch in range(3):
        staged(intake, f"a{batch}", "q", batch)
        intake.commit("q", batch, [f"a{batch}"])
    assert not intake.open("again", "q", 2, 0.0), "an attempt of a batch that is through is not wanted"
    assert intake.commit("q", 2, ["again"]) == Committed(3, False, [])
    assert intake.commit("q", 1, []) == Committed(3, False, [])
    assert len(intake.waiting) == 3


def test_what_was_staged_before_the_same_batch_came_again_goes_with_its_second_commit():
    """The driver died between write and commit; after its restart, all tasks of the batch run again."""
    intake = Intake("lines")
    lost = staged(intake, "before", "q", 0)
    again = staged(intake, "after", "q", 0)
    assert intake.commit("q", 0, ["after"]) == Committed(1, True, lost)
    assert intake.release().extents == again


def test_a_second_query_goes_on_where_the_first_has_come():
    intake = Intake("lines")
    assert [released(intake, "q", batch) for batch in range(2)] == [0, 1]
    assert [released(intake, "r", batch) for batch in range(2)] == [2, 3]
    assert [released(intake, "q", 2), released(intake, "r", 2)] == [4, 5]


def test_epochs_that_pass_while_decisions_wait_come_before_them():
    """They are not taken in, since the job is held, and bins move meanwhile."""
    intake = Intake("lines")
    for batch in range(2):
        intake.commit("q", batch, [])
    intake.pass_to(7)
    intake.commit("q", 2, [])
    assert [intake.release().epoch for _ in range(3)] == [7, 8, 9]


def test_batches_without_any_task_leave_gaps():
    intake = Intake("lines")
    intake.skip("there", 0)
    assert intake.commit("q", 1, [], checkpoint="there").new
    assert intake.release().epoch == 1
    assert released(intake, "q", 4) == 4
    assert [released(intake, "r", 0), released(intake, "r", 2)] == [5, 7], "another query's epochs have gaps as well"


def test_a_query_that_began_with_another_run_of_the_job_is_refused():
    intake = Intake("lines")
    staged(intake, "a", "q", 7)
    with pytest.raises(
        RequestRefused, match=r"batch 7 of query q came to input 'lines', which has none of its earlier ones"
    ):
        intake.commit("q", 7, ["a"])
    with pytest.raises(RequestRefused, match="begin the query with a new checkpoint"):
        intake.commit("q", 7, ["a"], checkpoint="there")
    assert (intake.decided, intake.epoch) == (0, 0)


@pytest.mark.parametrize("before", [True, False])
def test_a_batch_without_rows_of_one_query_stands_for_none_of_another(before: bool):
    """Whether that one commits before it has begun, or not."""
    intake = Intake("lines")
    intake.skip("there", 0)
    if before:
        assert intake.commit("q", 1, [], checkpoint="there").new
    for checkpoint in ("elsewhere", None):
        with pytest.raises(RequestRefused, match="batch 1 of query r came to input 'lines', which has none of its"):
            intake.commit("r", 1, [], checkpoint=checkpoint)
    if not before:
        assert intake.commit("q", 1, [], checkpoint="there").new
    assert intake.decided == 1


def test_another_query_that_commits_does_not_make_a_querys_empty_batches_forgotten():
    intake = Intake("lines")
    intake.skip("there", 0)
    assert intake.commit("r", 0, [], checkpoint="elsewhere").new
    intake.skip("there", 1)
    assert intake.commit("q", 2, [], checkpoint="there").new


def test_a_query_that_begins_anew_where_another_was_has_its_own_empty_batches():
    intake = Intake("lines")
    for batch in (0, 1, 2, 0):
        intake.skip("there", batch)
    with pytest.raises(RequestRefused, match="batch 2 of query q came to input 'lines', which has none of its earlier"):
        intake.commit("q", 2, [], checkpoint="there")
    assert intake.commit("q", 1, [], checkpoint="there").new


def test_a_query_without_a_checkpoint_that_begins_with_an_empty_batch_is_told_to_name_it():
    intake = Intake("lines")
    intake.skip(None, 0)
    with pytest.raises(RequestRefused, match=r'name its checkpoint with \.option\("checkpointLocation", …\)'):
        intake.commit("q", 1, [])
    assert intake.commit("q", 0, []).new


def test_attempts_that_are_unknown_incomplete_or_anothers_are_refused_and_nothing_changes():
    intake = Intake("lines")
    staged(intake, "other", "r", 0)
    intake.open("half", "q", 0, 0.0)
    for attempt, reason in [
        ("never", "has not received: the job was started again"),
        ("half", "has not received in full"),
        ("other", "attempt 'other' was staged for batch 0 of query r"),
    ]:
        with pytest.raises(RequestRefused, match=reason):
            intake.commit("q", 0, [attempt])
    assert (intake.decided, sorted(intake.attempts)) == (0, ["half", "other"])


def test_an_attempt_that_lacks_rows_is_refused():
    intake = Intake("lines")
    intake.open("a", "q", 0, 0.0)
    intake.stage("a", extent(), 1)
    with pytest.raises(RequestRefused, match="says that it has 2 rows, and 1 have come"):
        intake.complete("a", 2, 0.0)


def test_a_batch_that_nobody_commits_expires_and_its_commit_says_so():
    intake = Intake("lines")
    old = staged(intake, "a", "q", 0, now_s=10.0)
    staged(intake, "b", "r", 0, now_s=20.0)
    assert intake.expire(10.0) == []
    assert intake.expire(15.0) == old
    with pytest.raises(RequestRefused, match="has not kept: its batch was not committed for too long"):
        intake.commit("q", 0, ["a"])
    assert intake.commit("r", 0, ["b"]).new
    assert staged(intake, "again", "q", 0, now_s=21.0)
    assert intake.commit("q", 0, ["again"]).new


def test_nothing_of_a_batch_expires_while_one_of_its_attempts_is_staged_or_was_lately():
    """The first task of a batch may be done long before the last."""
    intake = Intake("lines")
    first = staged(intake, "first", "q", 0, now_s=0.0)
    intake.open("slow", "q", 0, 1.0)
    assert intake.expire(100.0) == []
    intake.complete("slow", 0, 150.0)
    assert intake.expire(150.0) == []
    intake.open("slow again", "q", 0, 151.0)
    intake.drop(["slow again"], 200.0)
    assert intake.expire(200.0) == [], "its connection broke, and the task is tried again"
    assert intake.expire(201.0) == first


def test_an_input_ends_with_its_last_batch_or_when_it_is_closed_and_only_once():
    intake, other = Intake("lines"), Intake("other")
    intake.commit("q", 0, [], last=True)
    intake.close()
    other.close()
    other.close()
    assert (len(intake.waiting), len(other.waiting)) == (1, 1)
    assert intake.release() == Release("lines", 0, [], 0, True)
    assert other.release() == Release("other", 0, (), 0, True)
    for ended in (intake, other):
        with pytest.raises(RequestRefused, match="has ended, and takes nothing more"):
            ended.open("a", "r", 0, 0.0)


def test_an_input_that_is_closed_ends_behind_what_was_committed():
    intake = Intake("lines")
    intake.commit("q", 0, [])
    intake.close()
    assert [(release.epoch, release.last) for release in (intake.release(), intake.release())] == [
        (0, False),
        (1, True),
    ]


def test_an_input_that_is_ahead_of_the_job_stays_there():
    intake = Intake("lines")
    intake.pass_to(7)
    intake.pass_to(3)
    assert released(intake, "q", 0) == 7
