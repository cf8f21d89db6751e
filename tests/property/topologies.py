"""Topologies as data: a list of steps, which become operators through the DSL.

A step is a tuple: the name of an operator, numbers of earlier nodes, and options. Keys and values are strings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from tests.property.facts import Facts
from tests.property.functions import NOTHING, Chain, Ticker, chosen, code, grouping, joined, mixed, rest, total

from millstream import (
    App,
    Windowed,
    hopping,
    join_window,
    session,
    sliding,
    tumbling,
    until_time_limit,
    until_window_closes,
)

Step = tuple[Any, ...]
"""The name of an operator, and its arguments."""

FOREVER = 1_000_000
"""A grace period that no record exceeds."""


class Cycles(NamedTuple):
    """Cycles of internal topics.

    A foreign-key join has one. So has a stream that is merged or joined with records of its own that went through an
    exchange, because the operators before and behind the exchange are then in one sub-topology.

    Attributes:
        exchanges: The exchanges inside the cycles.
        inputs: All inputs of the sub-topologies that read them.
    """

    exchanges: frozenset[str] = frozenset()
    inputs: frozenset[str] = frozenset()


NO_CYCLES = Cycles()


@dataclass(frozen=True)
class Node:
    """A stream, a table or a windowed table, and the facts about it."""

    kind: str
    dsl: Any
    facts: Facts


class Builder:
    """Adds steps to an application.

    Args:
        app: The application.
        prefix: The beginning of all names of topics and stores.
        cycles: The cycles that the same steps have.

    Attributes:
        nodes: The nodes, which later steps refer to by number.
        topics: The input topics.
        stores: The facts about each store, and its kind.
        sinks: The facts about each output topic.
        exchanges: The number of exchanges.
    """

    def __init__(self, app: App, prefix: str = "", cycles: Cycles = NO_CYCLES) -> None:
        self.app = app
        self.prefix = prefix
        self.nodes: list[Node] = []
        self.topics: list[str] = []
        self.stores: dict[str, tuple[Facts, str]] = {}
        self.sinks: dict[str, Facts] = {}
        self.exchanges = 0
        self.used: set[int] = set()
        self._cycles = cycles
        self._roots: dict[str, frozenset[str]] = {}
        self._parts: list[set[str]] = []
        self._edges: list[tuple[str, str]] = []

    def add(self, step: Step) -> None:
        """Adds a step."""
        name, *arguments = step
        made = getattr(self, f"_{name}")(*arguments)
        self.nodes += made if isinstance(made, list) else [made]

    def add_all(self, steps: Iterable[Step]) -> Self:
        """Adds some steps."""
        for step in steps:
            self.add(step)
        return self

    def finish(self) -> None:
        """Writes each node without a consumer to an output topic."""
        for number, node in enumerate(self.nodes):
            if number not in self.used:
                topic = f"{self.prefix}out{number}"
                (node.dsl if node.kind == "stream" else node.dsl.to_stream()).to(topic)
                self.sinks[topic] = node.facts

    def _of(self, number: int) -> Node:
        self.used.add(number)
        return self.nodes[number]

    def _store(self, facts: Facts, kind: str = "key-value") -> str:
        name = f"{self.prefix}s{len(self.stores)}"
        self.stores[name] = facts, kind
        return name

    def _exchange(self, facts: Facts) -> Facts:
        """Returns the facts behind an exchange."""
        self.exchanges += 1
        topic = str(self.exchanges)
        self._roots[topic] = frozenset().union(*(self._roots[source] for source in facts.inputs))
        self._parts.append({topic})
        self._edges.append((min(facts.inputs), topic))
        disordered = facts.disordered or (facts.shuffled and facts.moved)
        return facts.but(
            inputs=frozenset({topic}),
            rekeyed=False,
            moved=False,
            merged=False,
            shuffled=facts.scattered,
            disordered=disordered,
        )

    def _join_parts(self, inputs: frozenset[str]) -> None:
        """Makes the sub-topologies of some inputs one."""
        joined = [part for part in self._parts if part & inputs]
        self._parts = [part for part in self._parts if not part & inputs] + [set().union(*joined)]

    def _part(self, topic: str) -> int:
        return next(number for number, part in enumerate(self._parts) if topic in part)

    def cycles(self) -> Cycles:
        """Returns the cycles of internal topics."""
        edges = {(self._part(writer), self._part(topic)) for writer, topic in self._edges}
        reached = edges
        while (further := reached | {(a, d) for a, b in reached for c, d in edges if b == c}) != reached:
            reached = further
        inside = {topic for writer, topic in self._edges if (self._part(topic), self._part(writer)) in reached}
        return Cycles(frozenset(inside), frozenset().union(*(part for part in self._parts if part & inside)))

    def _keyed(self, facts: Facts) -> Facts:
        """Returns the facts before an operator with state, which repartitions if the key was changed."""
        return self._exchange(facts) if facts.rekeyed else facts

    def _together(self, left: Facts, right: Facts) -> Facts:
        """Returns the facts of the records of two nodes in one operator."""
        pairs = [(a, b) for a in left.inputs for b in right.inputs if self._roots[a] & self._roots[b]]
        flags = (
            *("rekeyed", "moved", "merged", "timed", "punctuated", "scattered", "shuffled", "disordered", "cyclic"),
            "repeated",
        )
        facts = Facts(
            left.inputs | right.inputs,
            settled=left.settled and right.settled,
            **{flag: getattr(left, flag) or getattr(right, flag) for flag in flags},
        )
        self._join_parts(facts.inputs)
        return facts.but(
            scattered=facts.scattered or bool(pairs),
            disordered=facts.disordered or any(a != b for a, b in pairs),
            cyclic=facts.cyclic or (len(facts.inputs) > 1 and bool(facts.inputs & self._cycles.exchanges)),
        )

    def _source(self, topic: str) -> Facts:
        self.topics.append(topic)
        self._roots[topic] = frozenset({topic})
        self._parts.append({topic})
        return Facts(frozenset({topic}))

    # ----- sources and operators without state -----------------------------------------------------------------------

    def _stream(self, topic: str) -> Node:
        name = self.prefix + topic
        return Node("stream", self.app.stream(name, key=str, value=str), self._source(name))

    def _table(self, topic: str) -> Node:
        name = self.prefix + topic
        facts = self._source(name)
        return Node("table", self.app.table(name, key=str, value=str, store=self._store(facts)), facts)

    def _map_values(self, source: int) -> Node:
        node = self._of(source)
        mapped = node.dsl.map_values(lambda value: None if value is None else mixed(value, "m"), value=str)
        return Node(node.kind, mapped, node.facts)

    def _filter(self, source: int, parts: int) -> Node:
        node = self._of(source)
        return Node(node.kind, node.dsl.filter(chosen(parts)), node.facts)

    def _select_key(self, source: int, groups: int, nulls: bool) -> Node:
        node = self._of(source)
        stream = node.dsl.select_key(grouping(groups, nulls), key=str)
        return Node("stream", stream, node.facts.but(rekeyed=True, moved=True))

    def _flat_map(self, source: int, groups: int) -> Node:
        node, group = self._of(source), grouping(groups, False)

        def split(value: str | None) -> list[tuple[str | None, str | None]]:
            parts = [mixed(value, letter) for letter in "xy"[: code(value) % 3]]
            return [(group(part), part) for part in parts]

        stream = node.dsl.flat_map(split, key=str, value=str)
        return Node("stream", stream, node.facts.but(rekeyed=True, moved=True, scattered=True))

    def _with_timestamp(self, source: int, spread: int) -> Node:
        node = self._of(source)
        stream = node.dsl.with_timestamp(lambda value: code(value) % spread)
        return Node("stream", stream, node.facts)

    def _merge(self, left: int, right: int) -> Node:
        a, b = self._of(left), self._of(right)
        facts = self._together(a.facts, b.facts)
        return Node("stream", a.dsl.merge(b.dsl), facts.but(merged=facts.merged or len(facts.inputs) > 1))

    def _split(self, source: int, parts: int) -> list[Node]:
        node = self._of(source)
        branches = node.dsl.split({"most": chosen(parts)}, default="others")
        return [Node("stream", branch, node.facts) for branch in branches.values()]

    def _repartition(self, source: int) -> Node:
        node = self._of(source)
        return Node("stream", node.dsl.repartition(), self._exchange(node.facts))

    # ----- streams with state ----------------------------------------------------------------------------------------

    def _process(self, source: int, kind: str) -> Node:
        node = self._of(source)
        stream, facts = node.dsl, node.facts
        if facts.rekeyed:
            stream, facts = stream.repartition(), self._exchange(facts)
        facts = facts.in_order()
        if kind == "ticker":
            facts = (
                facts.clocked()
                .but(punctuated=True, cyclic=facts.cyclic or bool(facts.inputs & self._cycles.inputs))
                .in_order()
            )
        store = self._store(facts, "plain")
        self.app.add_store(store, key=str, value=str)
        base: Any = Ticker if kind == "ticker" else Chain
        made = stream.process(type(base.__name__, (base,), {"store": store}), store, key=str, value=str)
        return Node("stream", made, facts.but(rekeyed=True))

    def _aggregate(self, source: int, kind: str) -> Node:
        node = self._of(source)
        facts = self._keyed(node.facts)
        return self._aggregated(node.dsl.group_by_key(), facts, kind)

    def _aggregated(self, grouped: Any, facts: Facts, kind: str) -> Node:
        facts = facts.stateful() if kind == "sum" else facts.in_order()
        store = self._store(facts)
        if kind == "sum":
            return Node("table", grouped.aggregate(lambda: NOTHING, total, value=str, store=store), facts)
        return Node("table", grouped.reduce(joined, value=str, store=store), facts)

    def _windowed(self, source: int, window: str, grace: int, emit: str) -> Node:
        node = self._of(source)
        facts = self._keyed(node.facts).but(scattered=True)
        if emit == "close" or grace < FOREVER:
            facts = facts.clocked()
        facts = facts.in_order()
        windows: Any = {
            "tumbling": tumbling(20, grace=grace),
            "hopping": hopping(20, 10, grace=grace),
            "sliding": sliding(15, grace=grace),
            "session": session(8, grace=grace),
        }[window]
        store = self._store(facts, "session" if window == "session" else "window")
        grouped = node.dsl.group_by_key().windowed_by(windows, emit=emit)
        merger = (lambda _key, a, b: mixed(a, b)) if window == "session" else None
        table = grouped.aggregate(lambda: "", lambda v, a: mixed(a, v), merger, value=str, store=store)
        return Node("windowed", table, facts)

    def _stream_join(self, left: int, right: int, how: str, before: int, after: int, grace: int) -> Node:
        a, b = self._of(left), self._of(right)
        facts = self._together(self._keyed(a.facts), self._keyed(b.facts)).but(scattered=True)
        if how != "join" or grace < FOREVER:
            facts = facts.clocked()
        window = join_window(before=before, after=after, grace=grace)
        return Node("stream", getattr(a.dsl, how)(b.dsl, joined, window, value=str), facts.in_order())

    def _stream_table(self, left: int, right: int, how: str) -> Node:
        a, b = self._of(left), self._of(right)
        facts = self._together(self._keyed(a.facts), b.facts).in_order()
        return Node("stream", getattr(a.dsl, how)(b.dsl, joined, value=str), facts)

    def _to_table(self, source: int) -> Node:
        node = self._of(source)
        facts = self._keyed(node.facts).in_order()
        return Node("table", node.dsl.to_table(store=self._store(facts)), facts)

    # ----- tables ----------------------------------------------------------------------------------------------------

    def _to_stream(self, source: int) -> Node:
        node = self._of(source)
        facts = node.facts.in_order()  # each change becomes a record, also those of rows that are the same in the end
        return Node("stream", node.dsl.to_stream(), facts)

    def _table_join(self, left: int, right: int, how: str) -> Node:
        a, b = self._of(left), self._of(right)
        facts = self._together(a.facts, b.facts).stateful()
        facts = facts.but(repeated=facts.repeated or self._share_origin(a.facts, b.facts))
        return Node("table", getattr(a.dsl, how)(b.dsl, joined, value=str, store=self._store(facts)), facts)

    def _share_origin(self, left: Facts, right: Facts) -> bool:
        return any(self._roots[a] & self._roots[b] for a in left.inputs for b in right.inputs)

    def _foreign_key(self, left: int, right: int, how: str, groups: int) -> Node:
        a, b = self._of(left), self._of(right)
        subscriptions = self._exchange(a.facts)
        answers = self._exchange(self._together(subscriptions, b.facts))
        self._join_parts(answers.inputs | a.facts.inputs)
        repeated = answers.repeated or self._share_origin(a.facts, b.facts)
        facts = answers.stateful().but(cyclic=True, scattered=True, shuffled=True, repeated=repeated)
        table = getattr(a.dsl, how)(
            b.dsl, joined, on=lambda value: f"g{code(value) % groups}", value=str, store=self._store(facts)
        )
        return Node("table", table, facts)

    def _regroup(self, source: int, groups: int) -> Node:
        node, group = self._of(source), grouping(groups, False)
        facts = self._exchange(node.facts.but(moved=True, scattered=True)).stateful()
        if facts.repeated:
            facts = facts.in_order()
        grouped = node.dsl.group_by(lambda value: (group(value), value), key=str, value=str)
        table = grouped.aggregate(lambda: NOTHING, total, rest, value=str, store=self._store(facts))
        return Node("table", table, facts)

    def _suppress(self, source: int, limit: int) -> Node:
        node = self._of(source)
        if node.kind == "windowed":
            return Node("windowed", node.dsl.suppress(until_window_closes()), node.facts.clocked())
        return Node("table", node.dsl.suppress(until_time_limit(limit)), node.facts.clocked())

    def _windows_to_stream(self, source: int, through_exchange: bool) -> Node:
        """Makes the window a part of the key; before it, the windowed keys may pass an exchange."""
        node = self._of(source)
        stream, facts = node.dsl.to_stream(), node.facts.in_order()
        if through_exchange:  # by key and window, so sessions with one start and different ends may be in two tasks
            stream, facts = stream.repartition(), self._exchange(facts).but(moved=True)

        def flat(key: Windowed[str], _value: str | None) -> str:
            return f"{key.key}@{key.start}"

        return Node("stream", stream.select_key(flat, key=str), facts.but(rekeyed=True))

    def _regroup_windows(self, source: int) -> Node:
        """Adds up the windows of each key."""
        node = self._of(source)
        facts = self._exchange(node.facts.but(scattered=True)).stateful()
        grouped = node.dsl.group_by(lambda key, value: (key.key, value), key=str, value=str)
        table = grouped.aggregate(lambda: NOTHING, total, rest, value=str, store=self._store(facts))
        return Node("table", table, facts)
