"""Fixtures of these tests."""

from tests.unit.framework.dataflow.taps import no_dataflow_outlives_its_test as no_dataflow_outlives_its_test
