"""Operators that keep state by key or by bin, fixed by hash or on bins that move."""
