"""Lines of text files as columns: those that a job on rows gets, in batches of the same sizes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import ConfigError
from operators.columns import text
from operators.columns.text import line_batches
from operators.errors import RecordUnfit
from operators.job.files import lines

SCHEMA = pa.schema({"line": pa.string()})

TEXTS = [
    b"",
    b"\n",
    b"\r",
    b"\r\n",
    b"a",
    b"a\n",
    b"a\r\n",
    b"a\r",
    b"a\r\r\n",
    b"\r\n\r\nb",
    b"a\rb\n",
    b"\n\n\n",
    b"to be\nor not\r\nto be",
    "Grüße\n😀\r\n€\u2028still this line\x0band\x0cthis\n".encode(),
    b"short\n" + b"long " * 50 + b"\r\nshort\n" + b"x" * 100,
    b"x" * 64 + b"\n" + b"y" * 63 + b"\r\n" + b"z" * 65,
    b"nul \0 is a letter\n",
]


def batches(path: Path, lines_max: int) -> list[list[str]]:
    found = list(line_batches(path, SCHEMA, lines_max=lines_max, where="input 'lines'"))
    for batch in found:
        batch.validate(full=True)
        assert batch.schema == SCHEMA
    return [batch["line"].to_pylist() for batch in found]


@pytest.mark.parametrize("read_bytes", [1, 2, 7, 64, 4096])
@pytest.mark.parametrize("lines_max", [1, 2, 1000])
@pytest.mark.parametrize("octets", TEXTS, ids=range(len(TEXTS)))
def test_lines_are_those_of_rows(
    octets: bytes, lines_max: int, read_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(text, "READ_BYTES", read_bytes)
    path = tmp_path / "text"
    path.write_bytes(octets)
    assert batches(path, lines_max) == list(lines(path, lines_max=lines_max))


def test_lines_of_a_pipe_come_before_it_ends(tmp_path: Path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR)
    reading = line_batches(path, SCHEMA, lines_max=2, where="input 'lines'")
    try:
        os.write(pipe, b"to\nbe\nor")
        assert next(reading).to_pylist() == [{"line": "to"}, {"line": "be"}]
        os.write(pipe, b" not\n")
    finally:
        os.close(pipe)
    assert [batch.to_pylist() for batch in reading] == [[{"line": "or not"}]]


@given(
    st.lists(st.text(st.sampled_from("ab\r\n\n\u00fc\u20ac\U0001f600"), max_size=20)).map("".join),
    st.integers(1, 5),
    st.integers(1, 20),
)
def test_any_lines_are_those_of_rows(tmp_path_factory: Any, written: str, lines_max: int, read_bytes: int):
    path = tmp_path_factory.getbasetemp() / "any lines"
    path.write_bytes(written.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "READ_BYTES", read_bytes)
        assert batches(path, lines_max) == list(lines(path, lines_max=lines_max))


@pytest.mark.parametrize("octets", [b"fine\nGr\xfc\xdfe\n", b"\xff", b"cut off \xe2\x82\nnext\n", b"\xed\xa0\x80\n"])
def test_a_file_that_is_not_utf_8_is_refused(octets: bytes, tmp_path: Path):
    path = tmp_path / "latin"
    path.write_bytes(octets)
    with pytest.raises(RecordUnfit) as caught:
        batches(path, 10)
    assert str(caught.value).startswith(f"{path} is not UTF-8, and columns of strings are: ")
    assert str(caught.value).endswith("; feed it to an input of rows")


@pytest.mark.parametrize(
    "schema", [{"n": pa.int64()}, {"line": pa.string(), "n": pa.int64()}, {"line": pa.large_string()}], ids=str
)
def test_a_text_file_has_one_column_of_strings(schema: dict[str, pa.DataType], tmp_path: Path):
    path = tmp_path / "text"
    path.write_bytes(b"a\n")
    with pytest.raises(ConfigError, match=r"^input 'x' takes the columns \[.*\], and a text file has one, of strings"):
        list(line_batches(path, pa.schema(schema), lines_max=10, where="input 'x'"))
