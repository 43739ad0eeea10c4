"""Where a running job is fed and read from outside: batches go in once committed, results are kept until read.

`intake`, `outbox`, `flow_control` and `budget` decide, `byte_log` keeps the bytes, `broker` lets threads share them,
`server` and `client` carry them between processes. What Spark is, is not known here.
"""
