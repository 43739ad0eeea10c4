"""A command line that answers a wrong word with the closest right one."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn

from framework.suggest import hint

_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<given>-\S+)")


class Parser(argparse.ArgumentParser):
    """`argparse`'s, with hints. Flags are not abbreviated: a new one must not change what an old command line means."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})  # type: ignore[arg-type]

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """As the original does, but what a command does not know is that command's to complain about."""
        flags, rest = self.parse_known_args(args, namespace)
        if rest:
            parser: Parser = getattr(flags, "parser", self)
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        return flags

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and what was meant."""
        if found := _CHOICE.search(message):
            message += hint(found["given"], re.findall(r"[\w-]+", found["known"]))
        elif found := _UNKNOWN.search(message):
            flags = [flag for action in self._actions for flag in action.option_strings]
            message += hint(found["given"].partition("=")[0], flags)
        super().error(message)
