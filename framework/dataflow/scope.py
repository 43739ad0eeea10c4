"""Puts a dataflow graph together: operators, edges, nested scopes.

A scope is open while its `with` block runs and becomes a `Subgraph` at its end. All workers must build the same graph
in the same order: channels are numbered, and each worker announces a fingerprint of what it built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from framework.dataflow.builder import OperatorBuilder
from framework.dataflow.handle import InputHandle, Pusher
from framework.dataflow.operator import Activator, BuiltOperator
from framework.dataflow.pact import Pact, Pipeline
from framework.dataflow.worker_context import WorkerContext
from framework.errors import GraphError
from framework.progress.change_batch import ChangeBatch
from framework.progress.domain import Domain, Iteration, Nesting, Region
from framework.progress.graph import Graph, Node
from framework.progress.location import Source, Target
from framework.progress.order import Time
from framework.progress.shared import Operator
from framework.progress.subgraph import Outside, Subgraph
from framework.wire.container import Container


@dataclass(frozen=True, slots=True)
class Outlet:
    """An output port that others connect to: what a stream is to the graph."""

    scope: Scope
    source: Source
    pushers: list[Pusher]


class Scope:
    """A dataflow graph under construction."""

    def __init__(
        self,
        worker: WorkerContext,
        name: str,
        path: str,
        nesting: Nesting,
        activate: Callable[[], None],
        parent: Scope | None,
    ) -> None:
        self.worker = worker
        self.name = name
        self.path = path
        self.parent = parent
        self._nesting = nesting
        self._activate = activate
        self._open = True
        self._names = ["outside"]
        self._operators: dict[int, Operator] = {}
        self._edges: dict[Source, list[tuple[Target, bool]]] = {}
        self._outlets: list[Outlet] = []
        self._observed: set[Source] = set()
        self._subgraph: Subgraph | None = None
        self._progress_channel = worker.reserve_channel()
        self._entered: list[ChangeBatch[Time]] = []
        self._left = 0
        self._index_in_parent = 0
        self._described: list[str] = []
        self._nested_scopes: dict[int, Scope] = {}

    @property
    def domain(self) -> Domain:
        """The times of this scope."""
        return self._nesting.inner

    @property
    def complete(self) -> bool:
        """Whether its `with` block and those around it have ended, so that all that listens to its streams is known."""
        return not self._open and (self.parent is None or self.parent.complete)

    # Operators and edges

    def operator(self, name: str) -> OperatorBuilder:
        """Start an operator."""
        return OperatorBuilder(self, name)

    def reserve(self, name: str) -> int:
        """The index of the next operator."""
        if not self._open:
            raise GraphError(
                f"scope {self.name!r} is complete; add operator {name!r} within its `with` block, or around it"
            )
        self._names.append(name)
        return len(self._names) - 1

    def path_of(self, index: int) -> str:
        """The path of an operator from the dataflow down."""
        return f"{self.path}.{index}"

    def activator_of(self, index: int) -> Activator:
        """How the operator with this index asks to be scheduled."""

        def activate() -> None:
            if self._subgraph is not None:
                self._subgraph.activate(index)

        return self.worker.activator(activate)

    def add(self, index: int, operator: Operator) -> None:
        """Take in a finished operator."""
        self._operators[index] = operator

    def outlet(self, source: Source, pushers: list[Pusher]) -> Outlet:
        """An outlet of this scope."""
        self._edges[source] = []
        self._outlets.append(Outlet(self, source, pushers))
        return self._outlets[-1]

    def connect(self, outlet: Outlet, target: Target, handle: InputHandle, pact: Pact) -> None:
        """Let `outlet` feed an input of an operator of this scope."""
        self._check_outlet(outlet)
        if pact.to_all and outlet.source.node in self._nested_scopes:
            # A scope's output is counted on behalf of all workers, who need not agree yet on how many copies there are.
            outlet = self._relay(outlet)
        self._edges[outlet.source].append((target, pact.to_all))
        outlet.pushers.append(self.worker.open_channel(handle, self._names[outlet.source.node], pact))
        self._described.append(f"{outlet.source} {type(pact).__name__} {target}")

    def reaches_all(self, outlet: Outlet) -> bool:
        """Whether what comes out at `outlet` was brought to all workers on its way from wherever it comes from.

        What enters from the scope around this one, or leaves one within, counts as if it were.
        """
        seen, waiting = set[int](), [outlet.source.node]
        while waiting:
            node = waiting.pop()
            if node in seen or node == 0 or node in self._nested_scopes:
                continue
            seen.add(node)
            edges = [(source, to_all) for source, to in self._edges.items() for at, to_all in to if at.node == node]
            operator = self._operators.get(node)
            if not edges and operator is not None and any(operator.initial):
                return False
            waiting += [source.node for source, to_all in edges if not to_all]
        return True

    def observe(self, outlet: Outlet) -> None:
        """Take note that somebody looks at what comes out at `outlet`, which thus may lead nowhere."""
        self._observed.add(outlet.source)

    def unused(self) -> list[str]:
        """The operators with outputs that nothing listens to so far, and that nobody looks at."""
        loose = [outlet.source for outlet in self.loose_ends()]
        return [self._names[source.node] for source in loose if source not in self._observed]

    def loose_ends(self) -> list[Outlet]:
        """The outlets that nothing listens to so far."""
        return [outlet for outlet in self._outlets if not outlet.pushers]

    def sinks(self) -> list[InputHandle]:
        """The inputs of operators that have no output."""
        operators = [one for one in self._operators.values() if isinstance(one, BuiltOperator) and not one.outputs]
        return [handle for operator in operators for handle in operator.inputs]

    def _check_outlet(self, outlet: Outlet) -> None:
        if outlet.scope is not self:
            raise GraphError(
                f"a stream of scope {outlet.scope.name!r} cannot be used in scope {self.name!r}; "
                f"bring it in with enter() or out with leave()"
            )
        if not self._open:
            raise GraphError(f"scope {self.name!r} is complete; connect its streams within its `with` block")

    def _relay(self, outlet: Outlet) -> Outlet:
        builder = self.operator("relay")
        handle = builder.input(outlet, Pipeline())
        output, relayed = builder.output()

        def relay() -> None:
            for capability, container in handle:
                output.session(capability).give_container(container)

        builder.build(lambda _: relay, notify=False)
        return relayed

    # Nested scopes

    @contextmanager
    def iterative(self, name: str = "iterate") -> Iterator[Scope]:
        """A nested scope whose times count iterations."""
        with self._nested(name, Iteration(self.domain)) as scope:
            yield scope

    @contextmanager
    def region(self, name: str = "region") -> Iterator[Scope]:
        """A nested scope with the same times."""
        with self._nested(name, Region(self.domain)) as scope:
            yield scope

    @contextmanager
    def _nested(self, name: str, nesting: Nesting) -> Iterator[Scope]:
        index = self.reserve(name)
        scope = Scope(self.worker, name, self.path_of(index), nesting, self.activator_of(index).activate, self)
        scope._index_in_parent = index
        self._nested_scopes[index] = scope
        yield scope
        self.add(index, scope.close())
        self._described.append(scope.description())

    def enter(self, outlet: Outlet) -> Outlet:
        """Bring a stream of the scope around this one in."""
        parent = self.parent
        if parent is None or outlet.scope is not parent:
            around = f"scope {parent.name!r}, the one around it" if parent else "nothing: it is a dataflow of its own"
            raise GraphError(f"scope {self.name!r} takes in streams of {around}, not of scope {outlet.scope.name!r}")
        parent._check_outlet(outlet)
        if not self._open:
            raise GraphError(f"scope {self.name!r} is complete; enter() streams within its `with` block")
        port = len(self._entered)
        entered: ChangeBatch[Time] = ChangeBatch()
        self._entered.append(entered)
        inside = self.outlet(Source(0, port), [])
        enter, activate = self._nesting.enter, self._activate

        def push(time: Time, container: Container) -> None:
            inner = enter(time)
            entered.update(inner, len(container))
            activate()
            for pusher in inside.pushers:
                pusher(inner, container)

        outlet.pushers.append(push)
        parent._edges[outlet.source].append((Target(self._index_in_parent, port), False))
        parent._described.append(f"{outlet.source} enter {self.name} {port}")
        return inside

    def leave(self, outlet: Outlet) -> Outlet:
        """Bring a stream of this scope out into the one around it."""
        parent = self.parent
        if parent is None:
            raise GraphError(f"{self.name!r} is a dataflow of its own: there is nothing around it to leave into")
        self._check_outlet(outlet)
        port = self._left
        self._left += 1
        outside = parent.outlet(Source(self._index_in_parent, port), [])
        leave = self._nesting.leave

        def push(time: Time, container: Container) -> None:
            outer = leave(time)
            for pusher in outside.pushers:
                pusher(outer, container)

        outlet.pushers.append(push)
        self._edges[outlet.source].append((Target(0, port), False))
        self._described.append(f"{outlet.source} leave {port}")
        return outside

    # Completion

    def close(self) -> Subgraph:
        """Compile the graph."""
        self._open = False
        missing = [name for index, name in enumerate(self._names) if index and index not in self._operators]
        if missing:
            raise GraphError(f"in scope {self.name!r} these operators were begun and never built: {', '.join(missing)}")
        graph = Graph(self.domain, [Node("outside", self._left, len(self._entered), [])])
        for index in range(1, len(self._names)):
            operator = self._operators[index]
            shared = operator.shared
            graph.nodes.append(Node(operator.name, len(shared.consumed), len(shared.produced), operator.connection))
            initial = operator.initial if operator.local else "as its inside implies"
            self._described.append(f"{index} {operator.name} {operator.connection!r} {initial!r}")
        graph.edges = {source: [target for target, _ in targets] for source, targets in self._edges.items()}
        subgraph = Subgraph(self.name, self.path, self._nesting, graph.compile(), self._outside())
        subgraph.entered = self._entered
        state, passed_on = self.worker.inheritance.progress(self._progress_channel)
        starters = self.worker.starters(int(self.path.split(".")[0])) if state is None else 0
        for index, operator in self._operators.items():
            fans_out = [self._edges[Source(index, port)] for port in range(len(operator.shared.produced))]
            subgraph.adopt(index, operator, fans_out, starters)
        subgraph.inherit(state, passed_on)
        subgraph.open([self._edges[Source(0, port)] for port in range(len(self._entered))])
        self._subgraph = subgraph
        self.worker.open_progress(self._progress_channel, subgraph)
        return subgraph

    def abandon(self) -> None:
        """Shut down what was built: the dataflow will not be."""
        for scope in self._nested_scopes.values():
            scope.abandon()
        for operator in self._operators.values():
            operator.shut_down()

    def _outside(self) -> Outside:
        worker = self.worker
        return Outside(
            worker=worker.id,
            members=lambda: worker.members,
            broadcast=worker.broadcaster(self._progress_channel),
            activate=self._activate,
            events=worker.events,
        )

    def description(self) -> str:
        """The graph in words, the same on every worker that built the same graph."""
        return "\n".join([self.name, *self._described])

    def operators(self) -> list[tuple[str, str]]:
        """Path and name of every operator, in order of their paths; those of nested scopes follow their scope."""
        listed: list[tuple[str, str]] = []
        for index in range(1, len(self._names)):
            listed.append((self.path_of(index), self._names[index]))
            if index in self._nested_scopes:
                listed.extend(self._nested_scopes[index].operators())
        return listed
