"""The timely core, to be read as a small book.

1. `progress.order`, `progress.summary`, `progress.domain`: times, what paths do to them, and how scopes nest.
2. `progress.antichain`, `progress.change_batch`: frontiers, and changes that add up.
3. `progress.location`, `progress.graph`, `progress.reachability`: where times are, and where they could still turn up.
4. `progress.shared`, `progress.sequence`, `progress.subgraph`: how operators, scopes and workers agree on that.
5. `dataflow`: capabilities, handles, pacts, the builder of operators, and scopes under construction.
6. `membership`: who takes part, and how workers join and leave a running job.
7. `worker`: the step loop (`stepper`), over a `Transport`; the dataflows that run in it; what a program calls.
8. `wire` and `net`: what workers say to each other, and the links that carry it.
9. `launch`: where processes and threads come from, and how they end.
10. `simulation`: a whole cluster in one thread, from one seed.

`events` tells what happens, `errors` what went wrong.
"""

__tracebackhide__ = True
