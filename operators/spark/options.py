"""The options of `format("hailer")`."""

from __future__ import annotations

from collections.abc import Mapping

from framework.errors import ConfigError
from framework.suggest import hint

OPTIONS = ("job", "directory", "input", "output", "final", "batch", "maxRowsPerTrigger", "maxBytesPerTrigger")
SPARKS_OWN = frozenset({"checkpointlocation", "path", "outputmode", "querytimeout"})
"""Options that Spark adds itself, or that concern it alone."""


def check_options(options: Mapping[str, str]) -> None:
    """Raise for an option that nobody knows, since it would have no effect."""
    known = {option.lower() for option in OPTIONS}
    for option in options:
        if option.lower() not in known | SPARKS_OWN:
            listed = ", ".join(OPTIONS)
            raise ConfigError(f"format 'hailer' has no option {option!r}; it has {listed}{hint(option, OPTIONS)}")


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
