"""Progress tracking: times, frontiers, and how workers agree on them. Pure: no I/O, no clock."""
