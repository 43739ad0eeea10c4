"""How workers join and leave a running job: protocol cores that receive messages and name what is to be sent.

`turns` says who may change the membership, one after the other. `server` and `joiner` are the two ends of a join,
`leaver` that of a leave, and `member` is what every worker does, those that only look on included. A `Site` is what
they need of their worker.
"""
