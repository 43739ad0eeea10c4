"""`python -m tests.bench [NAME …]`: runs all benches, or those named.

Progress goes to stderr, the table to stdout. The exit status says whether the benches ran, not whether their bars
hold: 0, or 1 if one crashed or could not run, 2 if a name is unknown, 130 if interrupted.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import TextIO

from tests.bench.harness import Bar, Bench, CannotRun, UnknownBench, discover, select, table


def main(names: Sequence[str]) -> int:
    try:
        chosen = select(discover(), names)
    except UnknownBench as unknown:
        print(unknown, file=sys.stderr)
        return 2
    return run(chosen, out=sys.stdout, err=sys.stderr)


def run(benches: Mapping[str, Bench], *, out: TextIO, err: TextIO) -> int:
    """Runs `benches` one after the other and prints the table of all bars, also when one of them crashes."""
    bars: list[Bar] = []
    status = 0
    for number, (name, function) in enumerate(benches.items(), start=1):
        line = _Line(err, f"[{number}/{len(benches)}] {name}")
        start = time.monotonic()
        try:
            line.show("running")
            bars.extend(function(line.show))
        except KeyboardInterrupt:
            line.end("interrupted")
            status = 130
            break
        except CannotRun as reason:
            line.end(f"cannot run: {reason}")
            status = 1
        except Exception:
            line.end("crashed")
            traceback.print_exc(file=err)
            status = 1
        else:
            line.end(f"done in {time.monotonic() - start:.1f} s")
    for row in table(bars):
        print(row, file=out)
    return status


class _Line:
    """The progress of one bench: a line that is rewritten on a terminal, and one line per change elsewhere."""

    def __init__(self, err: TextIO, title: str) -> None:
        self._err = err
        self._title = title
        self._terminal = err.isatty()

    def show(self, text: str) -> None:
        self._write(text, end="" if self._terminal else "\n")

    def end(self, text: str) -> None:
        self._write(text, end="\n")

    def _write(self, text: str, end: str) -> None:
        start = "\r\x1b[K" if self._terminal else ""
        print(f"{start}{self._title}: {text}", end=end, file=self._err, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
