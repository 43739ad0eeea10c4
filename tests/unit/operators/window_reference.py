"""Windows as a loop over all records would have them: slow, obvious, and from the definitions alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from operators import Late, Pane, Window, WindowResult
from tests.unit.operators.moving import Outcome, Rows, by_epoch

Event = tuple[str, int, int]
"""A key, an event time, an amount."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run of windows is about."""

    watermarks: list[int]
    """By epoch; those after the last go on in steps of 10."""
    lateness: int
    early: bool

    def watermark(self, epoch: int) -> int:
        """The watermark at the end of an epoch; before the first, nothing was promised."""
        if epoch < 0:
            return -(10**9)
        beyond = epoch - len(self.watermarks) + 1
        return self.watermarks[epoch] if beyond <= 0 else self.watermarks[-1] + 10 * beyond

    def reached(self, event_time: int) -> int:
        return next(epoch for epoch in range(10**6) if self.watermark(epoch) >= event_time)


def random_setting(random: Random, epochs: int) -> Setting:
    """Watermarks that sometimes stand still and sometimes jump."""
    watermark, watermarks = random.choice([-5, 0, 10]), list[int]()
    for _ in range(epochs):
        watermark += random.choice([0, 1, 7, 10, 10, 25])
        watermarks.append(watermark)
    return Setting(watermarks, lateness=random.choice([0, 0, 1, 10, 30]), early=random.random() < 0.5)


def random_events(random: Random, setting: Setting, epochs: int) -> list[Rows]:
    """Events at about the watermark, many of them late, many at multiples of 5."""
    feed: list[Rows] = []
    for epoch in range(epochs):
        around = setting.watermark(epoch)
        times = [
            around + random.choice([-60, -30, -12, -5, -1, 0, 0, 1, 5, 9, 10, 40]) for _ in range(random.randrange(7))
        ]
        feed.append(
            [(random.choice("abc"), time - time % random.choice([1, 5]), random.randrange(9)) for time in times]
        )
    return feed


def aligned(feed: list[Rows], setting: Setting, windows_of: Callable[[int], list[Window]]) -> Outcome:
    """Tumbling or sliding windows that sum amounts."""
    held: dict[tuple[str, Window], list[tuple[int, int]]] = {}
    late: list[tuple[int, Late[Event]]] = []
    for epoch, events in enumerate(feed):
        for event in events:
            key, time, amount = event
            missed = []
            for window in windows_of(time):
                if setting.watermark(epoch - 1) >= window.end + setting.lateness:
                    missed.append(window)
                else:
                    held.setdefault((key, window), []).append((epoch, amount))
            if missed:
                late.append((epoch, Late(event, tuple(missed))))
    return by_epoch(
        [row for (key, window), items in held.items() for row in _results(key, window, items, setting)], late
    )


def _results(
    key: str, window: Window, items: list[tuple[int, int]], setting: Setting
) -> Iterator[tuple[int, WindowResult[str, int]]]:
    closed_at = setting.reached(window.end)
    epochs = {epoch for epoch, _ in items}
    # A window that only late records opened was not there to close.
    at = {epoch for epoch in epochs if epoch > closed_at or setting.early}
    if min(epochs) <= closed_at:
        at.add(closed_at)
    for epoch in at:
        total = sum(amount for arrived, amount in items if arrived <= epoch)
        pane = Pane.EARLY if epoch < closed_at else Pane.CLOSED if epoch == closed_at else Pane.CORRECTED
        yield epoch, WindowResult(key, window, total, pane)


def sessions(feed: list[Rows], setting: Setting, gap: int) -> Outcome:
    """Sessions that sum amounts: at the end of each epoch they are made anew from all events that were in time."""
    accepted: list[tuple[int, Event]] = []
    late: list[tuple[int, Late[Event]]] = []
    results: list[tuple[int, WindowResult[str, int]]] = []
    epochs = max(setting.reached(1000), len(feed)) + 1
    for epoch in range(epochs):
        for event in feed[epoch] if epoch < len(feed) else []:
            if event[1] + setting.lateness < setting.watermark(epoch - 1):
                late.append((epoch, Late(event, (Window(event[1], event[1] + gap),))))
            else:
                accepted.append((epoch, event))
        for key in "abc":
            for members in _clusters([item for item in accepted if item[1][0] == key], gap):
                window = Window(members[0][1][1], members[-1][1][1] + gap)
                closed_at, changed = setting.reached(window.end), any(arrived == epoch for arrived, _ in members)
                if epoch == closed_at or (changed and (setting.early or epoch > closed_at)):
                    pane = Pane.EARLY if epoch < closed_at else Pane.CLOSED if epoch == closed_at else Pane.CORRECTED
                    results.append((epoch, WindowResult(key, window, sum(event[2] for _, event in members), pane)))
    return by_epoch(results, late)


def _clusters(items: list[tuple[int, Event]], gap: int) -> list[list[tuple[int, Event]]]:
    """Runs of events less than `gap` apart."""
    clusters: list[list[tuple[int, Event]]] = []
    for item in sorted(items, key=lambda item: item[1][1]):
        if clusters and item[1][1] - clusters[-1][-1][1][1] < gap:
            clusters[-1].append(item)
        else:
            clusters.append([item])
    return clusters
