"""The control plane: the `hailer` command."""
