"""Words as text that never ends, written into a FIFO by a process of its own."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import struct
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, cycle
from pathlib import Path
from random import Random
from string import ascii_lowercase
from typing import Any

import numpy as np

WORDS_PER_LINE = 10
PIPE_BYTES = 1 << 20


def vocabulary(keys: int) -> list[str]:
    """So many different words of 5 to 30 bytes."""
    assert keys <= 16**5, keys
    dice = Random(0)
    tail = "".join(dice.choices(ascii_lowercase, k=25))
    return [f"{number:05x}{tail[: dice.randrange(26)]}" for number in range(keys)]


class WordFeed:
    """Writes each word once, and then the drawn ones over and over, until it is closed."""

    def __init__(
        self,
        path: Path,
        words: Sequence[str],
        drawn: Any,
        *,
        chunk_words: int,
        words_per_line: int = WORDS_PER_LINE,
        pause_s: float = 0.0,
    ) -> None:
        """`drawn` are numbers of `words`, in an array; a chunk of them is written at once, after a pause."""
        os.mkfifo(path)
        self._path = path
        self._words = words
        self._loads = list(_cut(np.arange(len(words)), chunk_words))
        self._rounds = list(_cut(np.asarray(drawn), chunk_words))
        self._words_per_line = words_per_line
        self._pause_s = pause_s
        context = multiprocessing.get_context("fork")
        self._closing = context.Event()
        self._written = context.Value("q", 0)
        self._dry = context.Value("q", 0)
        self._process = context.Process(target=self._write, args=(os.getpid(),), daemon=True)

    @contextmanager
    def writing(self) -> Iterator[WordFeed]:
        """Write for as long as the block lasts."""
        self._process.start()
        try:
            yield self
        finally:
            self._process.kill()
            self._process.join()

    def close(self) -> None:
        """Let the text end."""
        self._closing.set()
        self._process.join()

    def counts(self) -> Any:
        """How often each word was written; an array."""
        found, written = np.zeros(len(self._words), np.int64), self._written.value
        for numbers in self._loads[:written]:
            found += np.bincount(numbers, minlength=len(found))
        rounds, more = divmod(max(0, written - len(self._loads)), len(self._rounds))
        for place, numbers in enumerate(self._rounds):
            found += (rounds + (place < more)) * np.bincount(numbers, minlength=len(found))
        return found

    def dry(self) -> float:
        """The part of its writes that met an empty pipe, so that the reader may have waited."""
        return float(self._dry.value / max(1, self._written.value))

    def _write(self, parent: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        loads, rounds = ([self._text(numbers) for numbers in each] for each in (self._loads, self._rounds))
        try:
            with self._path.open("wb") as pipe:
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
                for text in chain(loads, cycle(rounds)):
                    if self._closing.wait(self._pause_s) or os.getppid() != parent:
                        return
                    self._dry.value += _is_empty(pipe.fileno())
                    pipe.write(text)
                    pipe.flush()
                    self._written.value += 1
        except BrokenPipeError:  # the job has ended
            pass

    def _text(self, numbers: Any) -> bytes:
        words = [self._words[number] for number in numbers.tolist()]
        lines = (" ".join(words[at : at + self._words_per_line]) for at in range(0, len(words), self._words_per_line))
        return "".join(f"{line}\n" for line in lines).encode()


def _cut(numbers: Any, size: int) -> Iterator[Any]:
    return (numbers[at : at + size] for at in range(0, len(numbers), size))


def _is_empty(pipe: int) -> bool:
    [waiting] = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return not waiting
