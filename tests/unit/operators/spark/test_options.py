"""Options of `format("hailer")`: what they may be."""

from __future__ import annotations

import pytest

from framework.errors import ConfigError
from operators.spark.options import flag, positive


def test_a_limit_is_a_number_from_1_on():
    assert positive({}, "maxRowsPerTrigger") is None
    assert positive({"maxRowsPerTrigger": "1"}, "maxRowsPerTrigger") == 1
    for value in ("0", "-1", "1.5", "many", ""):
        with pytest.raises(ConfigError, match="option 'maxRowsPerTrigger' is a number from 1 on"):
            positive({"maxRowsPerTrigger": value}, "maxRowsPerTrigger")


def test_a_flag_is_true_or_false_in_whatever_case():
    assert [flag(options, "final") for options in ({}, {"final": "False"}, {"final": "TRUE"})] == [False, False, True]
    with pytest.raises(ConfigError, match="option 'final' is true or false, not 'yes'"):
        flag({"final": "yes"}, "final")
