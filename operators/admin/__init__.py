"""How a running job is found and called by other processes: its run directory, its admin endpoint, and a client."""
