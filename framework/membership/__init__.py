"""How workers join and leave a running job: protocol cores that receive messages and return what is to be done.

`turns` says who may change the membership, one after the other. `bootstrap_server` and `joiner` are the two ends of a
join, `leaver` that of a leave, and `protocol` is what every worker does, bystanders included. What they want done are
`effects`; what they ask of the dataflows is `dataflow_state`. `driver` is the membership as its worker sees it: it
hands messages to the cores and carries out what they return.
"""
