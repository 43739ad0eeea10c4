"""Where a running job is fed and read from outside: epochs go in when they are committed, and are kept until read.

`intake` and `outbox` decide, `depot` keeps the bytes, `portal` lets threads share them, `server` and `client` carry
them between processes. What Spark is, is not known here.
"""
