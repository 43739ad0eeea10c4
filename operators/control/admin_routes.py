"""The requests of a job's admin endpoint. Their arguments are JSON from anybody: they are checked before use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from framework.errors import WorldError
from framework.suggest import hint
from operators.admin.errors import BadRequest, JobEnded
from operators.admin.server import Handler
from operators.control.job_service import ChangeOptions, JobService
from routing.migration.goals import STRATEGIES, Pace

GAP_S_MAX = 3600


def reads(service: JobService) -> Mapping[str, Handler]:
    """What can be asked."""
    handlers: Mapping[str, Handler] = {
        "status": lambda _: service.status(),
        "explain": lambda arguments: service.explain(arguments.get("operator")),
        "change": lambda arguments: service.change(_number(arguments)),
        "broker": lambda _: service.broker(),
    }
    return _telling_the_end(service, handlers)


def actions(service: JobService) -> Mapping[str, Handler]:
    """What can be done."""

    def move(arguments: Mapping[str, Any]) -> Any:
        match arguments:
            case {"bins": [*bins], "to": int(to)} if _are_numbers(bins):
                return service.move(bins, to, _options(arguments))
        raise BadRequest('a move says which bins and where: {"bins": [17, 18], "to": 2}')

    def map(arguments: Mapping[str, Any]) -> Any:
        match arguments:
            case {"owners": [*owners]} if _are_numbers(owners):
                return service.map(owners, _options(arguments))
        raise BadRequest('a map names the owner of every bin, bin 0 first: {"owners": [0, 1, 0, 1]}')

    def scale(arguments: Mapping[str, Any]) -> Any:
        match arguments:
            case {"processes": int(count)} if type(count) is int:
                return service.scale(count, _options(arguments))
        raise BadRequest('a scale says how many processes there shall be: {"processes": 3}')

    def leave(arguments: Mapping[str, Any]) -> Any:
        match arguments:
            case {"worker": int(worker)} if type(worker) is int:
                return service.leave(worker, _options(arguments))
        raise BadRequest('a leave says which worker: {"worker": 2}')

    def finish(_: Mapping[str, Any]) -> Any:
        service.finish()
        return {}

    handlers: Mapping[str, Handler] = {
        "move": move,
        "map": map,
        "rebalance": lambda arguments: service.rebalance(_options(arguments)),
        "cancel": lambda _: service.cancel(),
        "scale": scale,
        "leave": leave,
        "finish": finish,
    }
    return _telling_the_end(service, handlers)


def _telling_the_end(service: JobService, handlers: Mapping[str, Handler]) -> Mapping[str, Handler]:
    """The same, but what fails because the job is about to end says so."""

    def handle(handler: Handler, arguments: Mapping[str, Any]) -> Any:
        try:
            return handler(arguments)
        except WorldError as error:
            if service.ending:
                raise JobEnded(f"the job is about to end: {error}") from error
            raise

    return {name: partial(handle, handler) for name, handler in handlers.items()}


def _number(arguments: Mapping[str, Any]) -> int:
    number = str(arguments.get("number"))
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise BadRequest(f"a change has a number, not {number[:40]!r}")
    return int(number)


def _are_numbers(values: Sequence[Any]) -> bool:
    return bool(values) and all(type(value) is int for value in values)


def _options(arguments: Mapping[str, Any]) -> ChangeOptions:
    strategy = arguments.get("strategy") or Pace().strategy
    if strategy not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise BadRequest(f"there is no strategy {strategy!r}; there are {known}{hint(str(strategy), STRATEGIES)}")
    gap_s = arguments.get("gap_s") or 0
    if not isinstance(gap_s, int | float) or not 0 <= gap_s <= GAP_S_MAX:
        raise BadRequest(f"a gap of {gap_s!r} s between steps cannot be; give 0 to {GAP_S_MAX}")
    group = arguments.get("group")
    if not isinstance(group, str | None):
        raise BadRequest(f"a group of operators has a name, not {group!r}")
    return ChangeOptions(Pace(strategy, gap_s), group, bool(arguments.get("dry_run")))
