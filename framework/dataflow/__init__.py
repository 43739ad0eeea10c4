"""The dataflow graph: scopes, operators, capabilities, channels."""
