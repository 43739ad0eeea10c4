"""Where the state of bins lives."""
