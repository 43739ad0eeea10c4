"""Where a job's processes come from."""
