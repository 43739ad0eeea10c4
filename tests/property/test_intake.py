"""Whatever tasks, drivers and connections do, each row of a batch is released once, and batches in their order."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from operators.broker.intake import Intake
from operators.broker.spill import Blob

TASKS = 2

moves = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "break", "commit", "commit", "abort", "restart"]),
        st.integers(0, TASKS - 1),
    ),
    max_size=60,
)


@given(moves)
def test_each_row_is_released_once(moves: list[tuple[str, int]]):
    """A driver that writes batch after batch, with tasks that run again and restarts that send a batch again."""
    intake, released, epochs = Intake("lines"), Counter[bytes](), list[int]()
    batch, done, complete = 0, 0, dict[int, str]()
    for number, (move, task) in enumerate(moves):
        attempt = f"attempt {number}"
        if move in ("write", "break") and intake.open(attempt, "q", batch):
            intake.stage(attempt, Blob(0, f"{batch}/{task}".encode()), 1)
            if move == "break":  # the connection breaks before all has come
                intake.drop([attempt])
            else:
                intake.complete(attempt, 1)
                complete[task] = attempt
        elif move == "commit" and (len(complete) == TASKS or batch < done):
            committed = intake.commit("q", batch, list(complete.values()))
            if committed.release is not None:
                released.update(blob.data for blob in committed.release.blobs)  # type: ignore[misc]
                epochs.append(committed.release.epoch)
            batch, complete = batch + 1, {}
            done = max(done, batch)
        elif move == "abort":
            intake.drop(complete.values())
            complete = {}
        elif move == "restart":  # from its checkpoint, which may not know that the last batch was committed
            batch, complete = max(0, batch - task), {}
    assert released == Counter(f"{one}/{task}".encode() for one in range(done) for task in range(TASKS))
    assert epochs == list(range(done))
    assert all(staged.batch >= done for staged in intake.attempts.values())
