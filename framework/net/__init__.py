"""Links between workers: threads of one process, TCP between processes, and how they come up."""
