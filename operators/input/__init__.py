"""Streams from outside the dataflow: fed by the program, or drawn from iterators."""
