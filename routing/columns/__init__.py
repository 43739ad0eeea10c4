"""Keys and states in columns: hashed, routed and kept by compiled code, in place on Arrow's buffers."""
