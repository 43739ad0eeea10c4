"""The output of a process in whole lines, so that what several processes print does not mix within a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator

CHUNK_BYTES = 65_536
LINE_BYTES_MAX = 1024 * 1024
"""A longer line is passed on in parts."""


def whole_lines(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """What `read` returns until its end, in blocks that end with a newline, or within a line that is too long.

    >>> chunks = iter([b"one\\ntw", b"o", b"\\nthree\\nfour\\nfi", b"ve", b""])
    >>> list(whole_lines(lambda size: next(chunks)))
    [b'one\\n', b'two\\nthree\\nfour\\n', b'five']
    """
    rest = b""
    while data := read(CHUNK_BYTES):
        lines, newline, rest = (rest + data).rpartition(b"\n")
        block = lines + newline
        if len(rest) > LINE_BYTES_MAX:
            block, rest = block + rest, b""
        if block:
            yield block
    if rest:
        yield rest
