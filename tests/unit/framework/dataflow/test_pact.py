"""Where records go."""

from __future__ import annotations

from framework.dataflow.pact import Broadcast, Deal, Exchange, Fixed, Pact, Pipeline
from framework.errors import OperatorFailed
from framework.membership.members import Members, WorkerId
from framework.progress.order import Time
from framework.wire.container import Container, Reservation

MEMBERS = Members(3, (WorkerId(2), WorkerId(5), WorkerId(9)))


class Edge:
    """An edge that notes what goes where."""

    worker = WorkerId(5)

    def __init__(self, members: Members = MEMBERS) -> None:
        self._members = members
        self.moved: list[tuple[WorkerId, Time, Container]] = []

    def members(self) -> Members:
        return self._members

    def founders(self) -> tuple[WorkerId, ...]:
        return WorkerId(2), WorkerId(5)

    def failure(self, time: Time) -> OperatorFailed:
        return OperatorFailed(operator="receiver", path="0.1", worker=self.worker, time=time)

    def deliver(self, time: Time, container: Container) -> None:
        self.moved.append((self.worker, time, container))

    def reserve(self, peer: WorkerId, size: int) -> None:
        return None

    def send(self, peer: WorkerId, time: Time, container: Container, reservation: Reservation | None = None) -> None:
        assert peer != self.worker
        self.moved.append((peer, time, container))


def moved(pact: Pact, rows: list[int], members: Members = MEMBERS) -> list[tuple[WorkerId, Time, Container]]:
    edge = Edge(members)
    pact.pusher(edge)(7, rows)
    return edge.moved


def test_pipeline_stays():
    assert moved(Pipeline(), [1, 2, 3]) == [(5, 7, [1, 2, 3])]


def test_exchange_goes_by_the_number_modulo_the_members_in_order():
    assert moved(Exchange(int), [0, 1, 2, 3, 4, 6]) == [(2, 7, [0, 3, 6]), (5, 7, [1, 4]), (9, 7, [2])]


def test_exchange_sends_nothing_to_who_has_nothing_to_get():
    assert moved(Exchange(int), [4, 1]) == [(5, 7, [4, 1])]


def test_exchange_alone_looks_at_one_record_of_a_container_and_keeps_the_container():
    seen: list[int] = []

    def route(number: int) -> int:
        seen.append(number)
        return number

    rows = [1, 2]
    [(worker, _, container)] = moved(Exchange(route), rows, Members(0, (WorkerId(5),)))
    assert (seen, worker, container is rows) == ([1], 5, True)


def test_exchange_by_a_worker_that_is_leaving_goes_to_those_that_stay():
    assert moved(Exchange(int), [1, 2], Members(0, (WorkerId(9),))) == [(9, 7, [1, 2])]


def test_fixed_stays_with_those_that_the_job_began_with():
    assert moved(Fixed(int), [0, 1, 2, 3, 4]) == [(2, 7, [0, 2, 4]), (5, 7, [1, 3])]


def test_deal_gives_every_worker_a_slice_and_begins_with_another_each_time():
    edge = Edge()
    push = Deal().pusher(edge)
    push(7, [1, 2, 3, 4])
    push(8, [5])
    push(9, [6, 7])
    assert edge.moved == [(2, 7, [1, 2]), (5, 7, [3, 4]), (9, 8, [5]), (2, 9, [6]), (5, 9, [7])]


def test_deal_alone_keeps_the_container():
    rows = [1, 2]
    [(_, _, dealt)] = moved(Deal(), rows, Members(0, (WorkerId(5),)))
    assert dealt is rows


def test_broadcast_goes_to_all():
    assert moved(Broadcast(), [1, 2]) == [(2, 7, [1, 2]), (5, 7, [1, 2]), (9, 7, [1, 2])]


def test_only_broadcast_multiplies():
    assert (Pipeline().to_all, Exchange(int).to_all, Broadcast().to_all) == (False, False, True)
