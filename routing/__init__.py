"""Who owns which key at which time, and the control plane."""

__tracebackhide__ = True
