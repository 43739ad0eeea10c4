"""Words for benches on columns: `w%x` of 24 random bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

BATCH = 65_536
WORDS_PER_LINE = 10


def word_batches(keys: int, batches: int, seed: int = 1, words: int = BATCH) -> list[pa.RecordBatch]:
    """Batches of words, of which so many are distinct; those of another seed have the same vocabulary."""
    vocabulary = _vocabulary(keys)
    random = np.random.default_rng(seed)
    drawn = (random.integers(0, keys, words) for _ in range(batches))
    return [pa.record_batch({"word": vocabulary.take(pa.array(numbers))}) for numbers in drawn]


def line_batches(keys: int, batches: int) -> list[pa.RecordBatch]:
    """The words of `word_batches`, in lines of text."""
    return [
        pa.record_batch({"line": [" ".join(words[at : at + WORDS_PER_LINE]) for at in range(0, BATCH, WORDS_PER_LINE)]})
        for words in (batch["word"].to_pylist() for batch in word_batches(keys, batches))
    ]


def _vocabulary(keys: int) -> pa.Array:
    numbers = np.random.default_rng(0).choice(2**24, keys, replace=False)
    return pa.array([f"w{number:x}" for number in numbers.tolist()])
