"""Who owns which key at which time: bins, the commands that move them, F and S, and the state that moves along."""

__tracebackhide__ = True
