"""Errors of jobs on columns."""

from __future__ import annotations

from framework.errors import GraphError, UserError


class FoldNotCompiled(GraphError):
    """A function cannot be compiled for columns."""


class ValueUnfit(UserError):
    """A value cannot be given to compiled code."""
