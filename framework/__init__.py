"""The timely core: time, progress, dataflow graph, workers, wire, membership, launchers."""
