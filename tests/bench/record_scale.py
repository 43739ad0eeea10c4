"""Records a job that is watched and scaled while it runs, as `docs/images/scale.svg`.

    python -m tests.bench.record_scale

The commands are run for real, and what they print is shown as it is; only the pauses between them are made up.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "scale.svg"
HAILER = str(Path(sys.executable).with_name("hailer"))
READINGS = 400

WIDTH, LINE, SIZE = 860, 18, 13
PAUSE_S = 1.6
"""Between a command and the next."""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "wordcount_job.py").write_text((ROOT / "examples" / "wordcount_job.py").read_text())
        (folder / "book.txt").write_text((ROOT / "examples" / "data" / "alice.txt").read_text() * READINGS)
        run = "hailer run wordcount_job.py -n 2 --input lines=book.txt --output counts=out"
        job = subprocess.Popen([HAILER, *run.split()[1:]], cwd=folder, stderr=subprocess.DEVNULL)
        try:
            time.sleep(5)
            shown: list[tuple[str, list[str]]] = [(f"$ {run} &", [])]
            shown += [(f"$ {command}", said(folder, command)) for command in COMMANDS]
        finally:
            job.terminate()
            job.wait()
    PICTURE.write_text(drawn(shown), encoding="utf-8")


COMMANDS = ("hailer status", "hailer scale 3", "hailer status", "hailer scale 2")


def said(folder: Path, command: str) -> list[str]:
    """What a command prints, without the table of operators, which says nothing of workers."""
    done = subprocess.run([HAILER, *command.split()[1:]], cwd=folder, capture_output=True, text=True, check=True)
    kept: list[str] = []
    for block in done.stdout.rstrip().split("\n\n"):
        if not block.startswith("operator  "):
            kept += [*block.splitlines(), ""]
    return kept[:-1]


def drawn(shown: list[tuple[str, list[str]]]) -> str:
    """A picture in which the commands and their outputs appear one after the other, and then stay."""
    texts, styles, row, at_s = list[str](), list[str](), 0, 0.0
    for number, (command, output) in enumerate(shown):
        for kind, line in [("command", command), *(("output", line) for line in output), ("output", "")]:
            row += 1
            late = f"l{number}" if kind == "output" else f"c{number}"
            cut = line if len(line) <= 104 else f"{line[:103]}…"
            texts.append(f'<text class="{kind} {late}" x="16" y="{row * LINE + 14}">{escape(cut)}</text>')
        styles.append(
            f".c{number} {{ animation-delay: {at_s:.1f}s }} .l{number} {{ animation-delay: {at_s + 0.6:.1f}s }}"
        )
        at_s += PAUSE_S
    height = row * LINE + 24
    size = f'width="{WIDTH}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" {size} viewBox="0 0 {WIDTH} {height}">',
            "<style>",
            f"text {{ font: {SIZE}px ui-monospace, Menlo, Consolas, monospace; fill: #c9d1d9;",
            "  animation: appear 0.1s backwards }",  # what does not animate shows all of it
            ".command { fill: #7ee787 }",
            "@keyframes appear { from { opacity: 0 } }",
            *styles,
            "</style>",
            f'<rect {size} rx="8" fill="#0d1117"/>',
            *texts,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    main()
