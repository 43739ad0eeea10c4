"""The state of bins: backends that F and S move them in and out of, stores of states per key, and timers."""
