"""What jobs are written with: `from hailer import Flow, Job`.

The names are those of `operators`, `operators.columns` and `operators.spark`. The last two packages are loaded when
one of their names is asked for, so that a job on rows does not wait for them.

Python searches the directory of the program first, where a user's folder `operators` would hide Hailer's package. So
Hailer's packages are found here: they are the ones beside this file. Who imports both is told of the clash.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING

HOME = os.path.dirname(os.path.realpath(__file__))
PACKAGES = ("framework", "routing", "operators")
REMEDY = "rename yours, or put it into a package of your own"


class OwnPackages:
    """Finds Hailer's packages beside this file, whatever the path says."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Where `name` is, if it is one of ours; raises if it seems to be sought in a package that ours hides."""
        package, _, inner = name.partition(".")
        if package not in PACKAGES:
            return None
        spec = PathFinder.find_spec(name, path if inner else [HOME], target)
        if spec is None and "." not in inner and (hidden := _find_hidden(package)):
            raise ImportError(f"Hailer's package {package!r}, which has no {inner!r}, hides yours, {hidden}; {REMEDY}")
        return spec


def _find_hidden(package: str) -> str | None:
    spec = PathFinder.find_spec(package, [entry for entry in sys.path if os.path.realpath(entry) != HOME])
    return _place(spec) if spec else None


def _place(spec: ModuleSpec) -> str:
    """The folder of a package, or the file of a module."""
    return next(iter(spec.submodule_search_locations or [spec.origin or ""]))


def _check_loaded() -> None:
    """Raise if a package is loaded already that has one of our names and is not ours."""
    for package in PACKAGES:
        spec = sys.modules[package].__spec__ if package in sys.modules else None
        if spec and os.path.realpath(place := _place(spec)) != os.path.join(HOME, package):
            raise ImportError(f"Hailer's package {package!r} is hidden by yours, {place}; {REMEDY}")


_check_loaded()
sys.meta_path.insert(0, OwnPackages)

from operators import (  # noqa: E402, for `OwnPackages` finds them
    DISCARD,
    Aggregation,
    Bin,
    BinOptions,
    Clock,
    Config,
    ControlInput,
    EpochClock,
    EventLog,
    EventReader,
    EventWriter,
    Extracted,
    Flow,
    Input,
    Job,
    Late,
    MemoryStore,
    Pane,
    Probe,
    Process,
    Product,
    RocksMaker,
    RocksStore,
    Scope,
    Steward,
    Stream,
    Time,
    Timers,
    UnorderedInput,
    WatermarkClock,
    Window,
    Windowed,
    WindowResult,
    WithinEventTime,
    Worker,
    add_flags,
    codec,
    collecting,
    concatenate,
    counting,
    empty,
    example,
    execute,
    execute_from_args,
    feedback,
    iterator_source,
    process,
    reducing,
    replay,
    source,
    stable_hash,
    to_stream,
    unordered_input,
)

if TYPE_CHECKING:
    from operators.columns import ColumnInput, Columns, aggregates, split_words
    from operators.spark import (
        BrokerLimits,
        HailerSource,
        JobOnSpark,
        JobProgram,
        Outcome,
        SparkOptions,
        open_session,
        register,
    )

LATE = {
    **dict.fromkeys(["ColumnInput", "Columns", "aggregates", "split_words"], "operators.columns"),
    **dict.fromkeys(
        [
            "BrokerLimits",
            "HailerSource",
            "JobOnSpark",
            "JobProgram",
            "Outcome",
            "SparkOptions",
            "open_session",
            "register",
        ],
        "operators.spark",
    ),
}
"""Where the names are that are loaded when they are asked for."""


def __getattr__(name: str) -> object:
    if name not in LATE:
        raise AttributeError(f"module 'hailer' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(LATE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "Aggregation",
    "Bin",
    "BinOptions",
    "BrokerLimits",
    "Clock",
    "ColumnInput",
    "Columns",
    "Config",
    "ControlInput",
    "DISCARD",
    "EpochClock",
    "EventLog",
    "EventReader",
    "EventWriter",
    "Extracted",
    "Flow",
    "HailerSource",
    "Input",
    "Job",
    "JobOnSpark",
    "JobProgram",
    "Late",
    "MemoryStore",
    "Outcome",
    "Pane",
    "Probe",
    "Process",
    "Product",
    "RocksMaker",
    "RocksStore",
    "Scope",
    "SparkOptions",
    "Steward",
    "Stream",
    "Time",
    "Timers",
    "UnorderedInput",
    "WatermarkClock",
    "Window",
    "WindowResult",
    "Windowed",
    "WithinEventTime",
    "Worker",
    "add_flags",
    "aggregates",
    "codec",
    "collecting",
    "concatenate",
    "counting",
    "empty",
    "example",
    "execute",
    "execute_from_args",
    "feedback",
    "iterator_source",
    "open_session",
    "process",
    "reducing",
    "register",
    "replay",
    "source",
    "split_words",
    "stable_hash",
    "to_stream",
    "unordered_input",
]
