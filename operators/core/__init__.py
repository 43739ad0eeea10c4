"""Operators without keyed state: one file each."""
