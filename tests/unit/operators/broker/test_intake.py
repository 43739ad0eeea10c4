"""An input of a broker: what is staged, what a commit releases, and at which epoch."""

from __future__ import annotations

import pytest

from operators.broker.intake import Committed, Intake, Release
from operators.broker.spill import Blob
from operators.errors import RequestRefused


def blob(text: str) -> Blob:
    return Blob(len(text), text.encode())


def staged(intake: Intake, attempt: str, query: str, batch: int, *texts: str) -> list[Blob]:
    """Stage an attempt with a row per text, completely."""
    assert intake.open(attempt, query, batch)
    blobs = [blob(text) for text in texts]
    for one in blobs:
        intake.stage(attempt, one, 1)
    intake.complete(attempt, len(texts))
    return blobs


def test_a_commit_releases_the_attempts_it_names_at_the_batchs_own_number():
    intake = Intake("lines")
    first = staged(intake, "a", "q", 0, "one", "two")
    second = staged(intake, "b", "q", 0, "three")
    assert intake.commit("q", 0, ["a", "b"]) == Committed(0, Release("lines", 0, [*first, *second], 3, False), [])
    assert intake.attempts == {}


def test_attempts_of_the_batch_that_the_commit_does_not_name_are_dropped():
    """A speculative task was slower, or one failed after it had staged all."""
    intake = Intake("lines")
    kept = staged(intake, "a", "q", 0, "one")
    loser = staged(intake, "b", "q", 0, "one")
    other = staged(intake, "c", "another query", 0, "two")
    assert intake.commit("q", 0, ["a"]) == Committed(0, Release("lines", 0, kept, 1, False), loser)
    assert intake.attempts["c"].blobs == other


def test_a_batch_that_is_committed_again_is_acknowledged_and_releases_nothing():
    intake = Intake("lines")
    for batch in range(3):
        staged(intake, f"a{batch}", "q", batch, "row")
        intake.commit("q", batch, [f"a{batch}"])
    assert not intake.open("again", "q", 2), "an attempt of a batch that is through is not wanted"
    assert intake.commit("q", 2, ["again"]) == Committed(2, None, [])
    assert intake.commit("q", 1, []) == Committed(1, None, [])
    assert intake.epoch == 3


def test_what_was_staged_before_the_same_batch_came_again_goes_with_its_second_commit():
    """The driver died between write and commit; after its restart, all tasks of the batch run again."""
    intake = Intake("lines")
    lost = staged(intake, "before", "q", 0, "row")
    again = staged(intake, "after", "q", 0, "row")
    assert intake.commit("q", 0, ["after"]) == Committed(0, Release("lines", 0, again, 1, False), lost)


def test_a_second_query_goes_on_where_the_first_has_come():
    intake = Intake("lines")
    for batch in range(2):
        intake.commit("q", batch, [])
    epochs = [intake.commit("r", batch, []).epoch for batch in range(2)]
    assert [*epochs, intake.commit("q", 2, []).epoch, intake.commit("r", 2, []).epoch] == [2, 3, 4, 5]


def test_batches_without_any_task_leave_gaps():
    intake = Intake("lines")
    intake.skip(0)
    assert intake.commit("q", 1, []).epoch == 1
    assert intake.commit("q", 4, []).epoch == 4


def test_a_query_that_began_with_another_run_of_the_job_is_refused():
    intake = Intake("lines")
    with pytest.raises(
        RequestRefused, match=r"batch 7 of query q came to input 'lines', which has none of its earlier ones"
    ):
        intake.open("a", "q", 7)
    with pytest.raises(RequestRefused, match="begin the query with a new checkpoint"):
        intake.commit("q", 7, [])


def test_a_batch_without_rows_of_one_query_stands_for_none_of_another_that_begins_later():
    intake = Intake("lines")
    intake.skip(0)
    intake.commit("q", 1, [])
    with pytest.raises(RequestRefused, match="batch 1 of query r came to input 'lines', which has none of its earlier"):
        intake.open("a", "r", 1)
    with pytest.raises(RequestRefused, match="begin the query with a new checkpoint"):
        intake.commit("r", 1, [])
    assert intake.epoch == 2


def test_attempts_that_are_unknown_incomplete_or_anothers_are_refused_and_nothing_changes():
    intake = Intake("lines")
    staged(intake, "other", "r", 0, "row")
    intake.open("half", "q", 0)
    for attempt, reason in [
        ("never", "has not received: the job was started again"),
        ("half", "has not received in full"),
        ("other", "attempt 'other' was staged for batch 0 of query r"),
    ]:
        with pytest.raises(RequestRefused, match=reason):
            intake.commit("q", 0, [attempt])
    assert (intake.epoch, sorted(intake.attempts)) == (0, ["half", "other"])


def test_an_attempt_that_lacks_rows_is_refused():
    intake = Intake("lines")
    intake.open("a", "q", 0)
    intake.stage("a", blob("row"), 1)
    with pytest.raises(RequestRefused, match="says that it has 2 rows, and 1 have come"):
        intake.complete("a", 2)


def test_an_input_ends_with_its_last_batch_or_when_it_is_closed_and_only_once():
    intake, other = Intake("lines"), Intake("other")
    release = intake.commit("q", 0, [], last=True).release
    assert release == Release("lines", 0, [], 0, True)
    assert intake.close() is None
    assert other.close() == Release("other", 0, (), 0, True)
    for ended in (intake, other):
        with pytest.raises(RequestRefused, match="has ended, and takes nothing any more"):
            ended.open("a", "r", 0)
