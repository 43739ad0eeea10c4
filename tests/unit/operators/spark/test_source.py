"""`HailerSource`: what it refuses before it looks for a job."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StringType, StructType

from framework.errors import ConfigError
from operators.spark import HailerSource

WORDS = StructType().add("word", StringType())


def test_an_input_is_not_overwritten():
    with pytest.raises(ConfigError, match=r"a job's input cannot be overwritten; write with \.mode\('append'\)"):
        HailerSource({}).writer(WORDS, overwrite=True)
