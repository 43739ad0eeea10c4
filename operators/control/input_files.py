"""Whether a file can feed an input: said before anything runs, with what to do if not."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from framework.errors import ConfigError
from framework.suggest import hint

COMPRESSED = {
    "gzip": (rb"\x1f\x8b", "zcat"),
    "bzip2": (rb"BZh\d1AY&SY", "bzcat"),
    "xz": (rb"\xfd7zXZ\0", "xzcat"),
    "zstd": (rb"\x28\xb5\x2f\xfd", "zstdcat"),
    "zip": (rb"PK\x03\x04", "unzip -p"),
}
"""How compressed files begin, and what prints what is in them."""

SIGNATURE_BYTES = 10


def check_input_file(name: str, path: str) -> None:
    """Raise unless the lines of the file at `path` can be read."""
    file, flag = Path(path), f"--input {name}={path}"
    if path == "-":
        raise ConfigError(f"{flag}: for standard input write --input {name}=/dev/stdin")
    if file.is_dir():
        raise ConfigError(f"{flag}: {path} is a directory; an input takes one text file: name a file in it")
    if not file.exists():
        raise ConfigError(f"{flag}: {_missing(file, path)}")
    if not file.is_file():  # a pipe, whose reader is the job
        return
    try:
        with file.open("rb") as opened:
            begins = opened.read(SIGNATURE_BYTES)
    except OSError as error:
        raise ConfigError(f"{flag}: {path} cannot be read: {error.strerror}") from error
    for kind, (signature, prints) in COMPRESSED.items():
        if re.match(signature, begins, re.DOTALL):
            raise ConfigError(
                f"{flag}: {path} is compressed ({kind}); decompress it, or let the job read what comes out: "
                f"{prints} {path} | hailer run … --input {name}=/dev/stdin"
            )


def _missing(file: Path, path: str) -> str:
    if matching := glob.glob(path) if glob.has_magic(path) else []:
        return (
            f"an input takes one text file, not a pattern, which {len(matching)} match; put them into one: "
            f"cat {path} > all.txt"
        )
    siblings = [str(file.parent / name) for name in os.listdir(file.parent)] if file.parent.is_dir() else []
    return f"there is no file {path}{hint(path, siblings)}"
