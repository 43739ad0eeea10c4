"""Which files can feed an input."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pytest

from framework.errors import ConfigError
from operators.control.input_files import check_input_file


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a book."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.txt").write_text("to be\n")
    return tmp_path


def complaint(path: str) -> str:
    with pytest.raises(ConfigError) as raised:
        check_input_file("lines", path)
    return str(raised.value)


def test_text_and_pipes_can(folder: Path):
    (folder / "empty").touch()
    os.mkfifo(folder / "pipe")
    for path in ("book.txt", str(folder / "book.txt"), "empty", "pipe", "/dev/null"):
        check_input_file("lines", path)


def test_what_is_no_file_is_told_with_what_to_name(folder: Path):
    (folder / "one.log").touch()
    (folder / "two.log").touch()
    assert [complaint(path) for path in (".", "-", "*.log", "*.csv", "bok.txt", "nowhere/book.txt")] == [
        "--input lines=.: . is a directory; an input takes one text file: name a file in it",
        "--input lines=-: for standard input write --input lines=/dev/stdin",
        "--input lines=*.log: an input takes one text file, not a pattern, which 2 match; put them into one: "
        "cat *.log > all.txt",
        "--input lines=*.csv: there is no file *.csv",
        "--input lines=bok.txt: there is no file bok.txt; did you mean 'book.txt'?",
        "--input lines=nowhere/book.txt: there is no file nowhere/book.txt",
    ]


@pytest.mark.parametrize(
    ("kind", "packed", "prints"),
    [
        ("gzip", gzip.compress(b"to be", mtime=0), "zcat"),
        ("bzip2", bz2.compress(b"to be"), "bzcat"),
        ("xz", lzma.compress(b"to be"), "xzcat"),
        ("zstd", b"\x28\xb5\x2f\xfd rest", "zstdcat"),
        ("zip", b"PK\x03\x04 rest", "unzip -p"),
    ],
)
def test_a_compressed_file_is_told_with_what_prints_it(folder: Path, kind: str, packed: bytes, prints: str):
    (folder / "packed").write_bytes(packed)
    assert complaint("packed") == (
        f"--input lines=packed: packed is compressed ({kind}); decompress it, or let the job read what comes out: "
        f"{prints} packed | hailer run … --input lines=/dev/stdin"
    )
