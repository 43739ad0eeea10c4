"""How many epochs may be in flight, as epochs cost more or less. Times are in milliseconds here."""

from __future__ import annotations

from operators.job.in_flight import EPOCHS_FEW, EPOCHS_MAX, InFlightLimit


def fed(limit: InFlightLimit, first: int, *, workers: int, now_ms: float) -> int:
    """Feed from epoch `first` on for as long as that is allowed; how many epochs are fed."""
    epoch = first
    while not limit.full(workers):
        limit.feed(epoch, now_ms / 1000)
        epoch += 1
    return epoch - first


def test_before_anything_is_complete_there_is_an_epoch_in_flight_and_one_more_for_other_workers():
    assert [fed(InFlightLimit(), 0, workers=workers, now_ms=0) for workers in (1, 2, 3)] == [1, 2, 2]


def test_cheap_epochs_double_the_limit_with_each_flight_up_to_a_maximum():
    limit, epochs, fed_at_once = InFlightLimit(), 0, []
    for flight in range(10):
        fed_at_once.append(fed(limit, epochs, workers=2, now_ms=flight))
        epochs += fed_at_once[-1]
        limit.complete_before(epochs, (flight + 0.5) / 1000)
    assert fed_at_once == [2, 4, 8, 16, 32, 64, 128, 256, 256, 256]
    assert fed_at_once[-1] == EPOCHS_MAX


def test_the_limit_is_what_comes_out_within_the_target():
    """Eight epochs take 70 ms, so four take 35 ms; they are told of together, or one by one."""
    for stops in ([8], [1, 2, 8]):
        limit = InFlightLimit(limit=8)
        assert fed(limit, 0, workers=2, now_ms=0) == 8
        for stop in stops:
            limit.complete_before(stop, 8.75 * stop / 1000)
        assert limit.limit == 4, stops


def test_a_source_that_is_slower_than_the_job_does_not_raise_the_limit():
    limit = InFlightLimit()
    for epoch in range(100):
        limit.feed(epoch, epoch / 100)
        limit.complete_before(epoch + 1, epoch / 100 + 0.001)
    assert limit.limit == 2


def test_when_epochs_turn_out_to_be_long_none_is_fed_until_those_in_flight_are_complete():
    limit, fed_at = InFlightLimit(limit=100), list[int]()
    assert fed(limit, 0, workers=2, now_ms=0) == 100
    for complete in range(1, 101):
        limit.complete_before(complete, complete / 10)
        fed_at += [complete] * fed(limit, 100 + len(fed_at), workers=2, now_ms=100 * complete)
    assert fed_at == [99, 100]


def test_epochs_between_those_that_are_fed_do_not_count():
    limit = InFlightLimit(limit=2)
    for epoch in (3, 900):
        limit.feed(epoch, 0.0)
    assert limit.full(2)
    limit.complete_before(3, 1.0)
    assert limit.full(2)
    limit.complete_before(900, 1.0)
    assert not limit.full(2)


def test_which_limits_are_few():
    limits = (1, EPOCHS_FEW, EPOCHS_FEW + 1)
    assert [InFlightLimit(limit=limit).few for limit in limits] == [True, True, False]
