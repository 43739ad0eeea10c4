"""Joins orders with payments, while both move from worker to worker, and checks every pair.

    python examples/join.py -n 2          # two processes
    python examples/join.py -n 2 -w 2     # four workers

An order is to be paid within three epochs; most are, some are paid twice, some too late, some never. A left join gives
each payment with its order, and each order that nobody paid when its time is over. It is in the dataflow twice, on
bins that move all the time and fixed by hash, and `verify` compares the two epoch by epoch.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import NamedTuple

from hailer import ControlInput, Input, Probe, Stream, Worker, add_flags, execute_from_args
from operators.commands import Control

WITHIN_EPOCHS = 3
BINS = 16
EPOCHS_AHEAD_MAX = 4


class Order(NamedTuple):
    number: int
    amount: int


class Payment(NamedTuple):
    reference: str
    amount: int


Pair = tuple[Order, Payment | None]


def main(worker: Worker, epochs: int) -> None:
    orders, payments, control, probe = Input[Order]("orders"), Input[Payment]("payments"), ControlInput(), Probe()
    with worker.dataflow("join") as scope:
        ours, theirs, commands = orders.stream(scope), payments.stream(scope), control.stream(scope).broadcast()
        verified = join(ours, theirs, commands).verify(join(ours, theirs, None))
        pairs = verified.exchange(lambda _: 0).probe(probe).extract()

    for epoch in range(epochs):
        if worker.index == 0:
            control.move(epoch % BINS, (epoch // BINS + epoch + 1) % worker.peers)
        orders.send_batch(orders_of(epoch)[worker.index :: worker.peers])
        payments.send_batch(payments_of(epoch)[worker.index :: worker.peers])
        for input in (orders, payments, control):
            input.advance_to(epoch + 1)
        worker.step_while(lambda: probe.less_than(orders.time - EPOCHS_AHEAD_MAX))
    for input in (orders, payments, control):
        input.close()
    worker.complete()
    if worker.index == 0:
        check(pairs.rows(), epochs, worker.peers)


def join(orders: Stream[Order], payments: Stream[Payment], control: Stream[Control] | None) -> Stream[Pair]:
    return orders.stateful_join(
        payments,
        key=lambda order: order.number,
        other_key=lambda payment: int(payment.reference.removeprefix("order ")),
        kind="left",
        within=WITHIN_EPOCHS,
        control=control,
        bins=BINS,
    )


def orders_of(epoch: int) -> list[Order]:
    return [Order(epoch * 100 + index, 5 + 37 * index % 100) for index in range(20)]


def payments_of(epoch: int) -> list[Payment]:
    """The payments that arrive in an epoch. Of each epoch's orders, some are paid `delay` epochs later."""
    paid_after = {0: range(5), 1: range(4, 9), WITHIN_EPOCHS: range(9, 12), WITHIN_EPOCHS + 1: range(12, 15)}
    return [
        Payment(f"order {order.number}", order.amount)
        for delay, which in paid_after.items()
        if epoch >= delay
        for order in orders_of(epoch - delay)[which.start : which.stop]
    ]


def check(pairs: list[Pair], epochs: int, workers: int) -> None:
    """Print what was found, and raise if two plain loops over the same orders and payments find something else."""
    expected: list[Pair] = []
    for ordered in range(epochs):
        for order in orders_of(ordered):
            due = range(ordered, min(epochs, ordered + WITHIN_EPOCHS + 1))
            paid = [payment for epoch in due for payment in payments_of(epoch)]
            paid = [payment for payment in paid if payment.reference == f"order {order.number}"]
            expected += [(order, payment) for payment in paid] or [(order, None)]
    differences = len(set(pairs) ^ set(expected)) + abs(len(pairs) - len(expected))
    print(f"orders           {epochs * len(orders_of(0)):>8,}")
    print(f"workers          {workers:>8,}")
    print(f"paid             {sum(payment is not None for _, payment in pairs):>8,}")
    print(f"not paid in time {sum(payment is None for _, payment in pairs):>8,}")
    print(f"differences      {differences:>8,}   (against two plain loops)", flush=True)
    if differences:
        raise PairsDiffer(f"{differences} pairs differ from those of two plain loops")


class PairsDiffer(Exception):
    """The dataflow and the plain loops disagree."""


def read_arguments() -> int:
    parser = argparse.ArgumentParser(description="Join orders with payments on bins that move, and check every pair.")
    parser.add_argument("--epochs", type=int, default=50, metavar="N", help="how many epochs of orders (50)")
    add_flags(parser)
    flags = parser.parse_args()
    if flags.epochs < 1:
        parser.error("--epochs is at least 1")
    epochs: int = flags.epochs
    return epochs


if __name__ == "__main__":
    execute_from_args(partial(main, epochs=read_arguments()))
