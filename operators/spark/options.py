"""The options of `format("hailer")`."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from framework.errors import ConfigError

OPTIONS = ("job", "directory", "input", "output", "final", "maxRowsPerTrigger", "maxBytesPerTrigger")
SPARKS_OWN = frozenset({"checkpointlocation", "path", "outputmode", "querytimeout"})
"""Options that Spark adds itself, or that concern it alone."""


def check_options(options: Mapping[str, str]) -> None:
    """Raise for an option that nobody knows, since it would have no effect."""
    known = {option.lower() for option in OPTIONS}
    for option in options:
        if option.lower() not in known | SPARKS_OWN:
            close = get_close_matches(option.lower(), known, 1)
            named = next((one for one in OPTIONS if close and one.lower() == close[0]), None)
            hint = f"; did you mean {named!r}?" if named else ""
            raise ConfigError(f"format 'hailer' has no option {option!r}; it has {', '.join(OPTIONS)}{hint}")


def flag(options: Mapping[str, str], name: str) -> bool:
    """An option that is true or false."""
    value = options.get(name, "false").lower()
    if value not in ("true", "false"):
        raise ConfigError(f"option {name!r} is true or false, not {value!r}")
    return value == "true"


def positive(options: Mapping[str, str], name: str) -> int | None:
    """An option that is a number, if it is given."""
    value = options.get(name)
    if value is None:
        return None
    if not value.isdigit() or not int(value):
        raise ConfigError(f"option {name!r} is a number from 1 on, not {value!r}")
    return int(value)
