"""Runs a vector: builds its topology with the public API, pipes its inputs, and returns its outputs.

A vector is a topology in JSON, with inputs; `vectors/README.md` beside this file describes the format.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # so that it can be loaded from any directory

from millstream import (
    App,
    Materialized,
    MillstreamError,
    TestDriver,
    hopping,
    join_window,
    session,
    sliding,
    tumbling,
    unlimited,
    until_time_limit,
    until_window_closes,
)
from tests.conformance.expressions import compile_expression, result_type
from tests.conformance.processors import make_processor
from tests.conformance.shapes import dump_stores, show_record

TYPES: dict[str, Any] = {"string": str, "long": int}


def run_vector(vector: dict[str, Any], *, restart: bool = False) -> dict[str, Any]:
    """Runs a vector.

    Args:
        vector: The vector, without expected results.
        restart: Stop the application after every step, and start it again from its changelogs.

    Returns:
        ``{"outputs", "stores", "dropped"}``, or ``{"error": {"step"}}`` with the outputs of earlier steps.
    """
    try:
        app, stores = Topology(vector).build()
        driver = TestDriver(app, wall_clock=vector.get("wall_clock_ms", 0))
    except MillstreamError as error:
        return {"error": {"step": "build", "message": str(error)}, "outputs": []}
    outputs = Outputs(driver)
    steps: list[list[dict[str, Any]]] = []
    for index, step in enumerate(vector["inputs"]):
        try:
            if "advance_wall_clock_ms" in step:
                driver.advance_wall_clock(step["advance_wall_clock_ms"])
            else:
                headers = [(name, value) for name, value in step.get("headers", [])]
                driver.input(step["topic"]).pipe(step["key"], step["value"], timestamp=step["ts"], headers=headers)
        except MillstreamError as error:
            return {"error": {"step": index, "message": str(error)}, "outputs": steps}
        steps.append(outputs.take())
        if restart:
            driver.restart()
    dropped = sum(n for (_, reason), n in driver.dropped.items() if reason not in UNCOUNTED)
    return {"outputs": steps, "stores": dump_stores(driver, stores, vector["inputs"], steps), "dropped": dropped}


UNCOUNTED = {"null key before repartition", "no branch", "before the window"}
"""Drops that Millstream counts and Kafka Streams does not."""


class Outputs:
    """Reads the topics of a driver step by step."""

    def __init__(self, driver: TestDriver) -> None:
        self._driver = driver
        self._readers: dict[str, Any] = {}

    def take(self) -> list[dict[str, Any]]:
        """Returns the records written since the last call, by topic."""
        shown = []
        for topic in sorted(self._driver.produced_topics):
            if topic.startswith("oracle-") and topic.endswith("-repartition"):
                continue
            if topic not in self._readers:
                self._readers[topic] = self._driver.output(topic)
            shown += [show_record(topic, record) for record in self._readers[topic].read_all()]
        return shown


def options_of(vector: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a vector's application."""
    config = vector.get("config") or {}
    options: dict[str, Any] = {"topology.optimization": config.get("optimization", "none")}
    if "processing_exceptions" in config:
        options["processing.exception.handler"] = config["processing_exceptions"]
    return options


class Topology:
    """Builds the topology of a vector.

    Args:
        vector: The vector.
        app: The application that the topology is added to; None for a new one.
    """

    def __init__(self, vector: dict[str, Any], app: App | None = None) -> None:
        self.app = App("oracle", config=options_of(vector)) if app is None else app
        self.nodes = vector["topology"]
        self.made: dict[str, Any] = {}
        self.key_types: dict[str, str] = {}
        self.value_types: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        self.stores: list[dict[str, Any]] = []
        self.windows: dict[str, dict[str, Any]] = {}

    def build(self) -> tuple[App, list[dict[str, Any]]]:
        """Builds all nodes; returns the application and its named stores."""
        for node in self.nodes:
            getattr(self, f"_{node['op']}")(node)
        return self.app, self.stores

    # ----- helpers ---------------------------------------------------------------------------------------------

    def _put(self, node: dict[str, Any], made: Any, key: str, value: str, kind: str) -> None:
        name = node["id"]
        self.made[name], self.key_types[name], self.value_types[name], self.kinds[name] = made, key, value, kind

    def _types(self, name: str) -> dict[str, str]:
        return {"key": self.key_types[name], "value": self.value_types[name]}

    def _function(self, expression: Any, node: dict[str, Any], *params: str, **types: str) -> tuple[Any, str]:
        env = {**self._types(node["from"]), **types} if isinstance(node.get("from"), str) else types
        return compile_expression(expression, params), result_type(expression, env)

    def _store(self, node: dict[str, Any], kind: str, key: str, value: str, **more: Any) -> Any:
        if "store" not in node:
            return Materialized(retention=node["retention_ms"]) if "retention_ms" in node else None
        history = node.get("versioned_ms")
        if history is not None:
            kind = "versioned"
        self.stores.append({"name": node["store"], "kind": kind, "key": key, "value": value, **more})
        return Materialized(node["store"], history=history, retention=node.get("retention_ms"))

    def _named(self, node: dict[str, Any]) -> dict[str, Any]:
        return {"name": node["name"]} if "name" in node else {}

    # ----- sources and sinks -----------------------------------------------------------------------------------

    def _timestamps(self, node: dict[str, Any]) -> dict[str, Any]:
        option = node.get("timestamps", "fail")
        if isinstance(option, dict):
            params = ("key", "value", "record_ts", "partition_time")
            return {"timestamp": compile_expression(option["expr"], params)}
        return {"on_invalid_timestamp": option}

    def _stream(self, node: dict[str, Any]) -> None:
        made = self.app.stream(
            *node["topics"], key=TYPES[node["key"]], value=TYPES[node["value"]], **self._timestamps(node)
        )
        self._put(node, made, node["key"], node["value"], "stream")

    def _table(self, node: dict[str, Any]) -> None:
        made = self.app.table(
            node["topic"],
            key=TYPES[node["key"]],
            value=TYPES[node["value"]],
            store=self._store(node, "kv", node["key"], node["value"]),
            **self._timestamps(node),
        )
        self._put(node, made, node["key"], node["value"], "table")

    def _global_table(self, node: dict[str, Any]) -> None:
        made = self.app.global_table(
            node["topic"],
            key=TYPES[node["key"]],
            value=TYPES[node["value"]],
            store=self._store(node, "kv", node["key"], node["value"]),
        )
        self._put(node, made, node["key"], node["value"], "global")

    def _to(self, node: dict[str, Any]) -> None:
        topic = node.get("topic")
        if topic is None:
            topic = compile_expression(node["topic_expr"], ("key", "value"))
        self.made[node["from"]].to(topic)

    # ----- stateless, and on tables ----------------------------------------------------------------------------

    def _filter(self, node: dict[str, Any]) -> None:
        source = node["from"]
        function, _ = self._function(node["when"], node, "key", "value")
        options = self._named(node)
        if self.kinds[source] == "table":
            options["store"] = self._store(node, "kv", self.key_types[source], self.value_types[source])
        made = getattr(self.made[source], node["op"])(function, **options)
        self._put(node, made, self.key_types[source], self.value_types[source], self.kinds[source])

    _filter_not = _filter

    def _select_key(self, node: dict[str, Any]) -> None:
        function, kind = self._function(node["key"], node, "key", "value")
        made = self.made[node["from"]].select_key(function, key=TYPES[kind], **self._named(node))
        self._put(node, made, kind, self.value_types[node["from"]], "stream")

    def _map(self, node: dict[str, Any]) -> None:
        key, key_type = self._function(node["key"], node, "key", "value")
        value, value_type = self._function(node["value"], node, "key", "value")
        made = self.made[node["from"]].map(
            lambda k, v: (key(k, v), value(k, v)), key=TYPES[key_type], value=TYPES[value_type], **self._named(node)
        )
        self._put(node, made, key_type, value_type, "stream")

    def _map_values(self, node: dict[str, Any]) -> None:
        source = node["from"]
        function, kind = self._function(node["value"], node, "key", "value")
        options = self._named(node)
        if self.kinds[source] == "table":
            options["store"] = self._store(node, "kv", self.key_types[source], kind)
        made = self.made[source].map_values(function, value=TYPES[kind], **options)
        self._put(node, made, self.key_types[source], kind, self.kinds[source])

    def _transform_values(self, node: dict[str, Any]) -> None:
        source = node["from"]
        function, kind = self._function(node["expr"], node, "key", "value")
        made = self.made[source].transform_values(
            function,
            value=TYPES[kind],
            store=self._store(node, "kv", self.key_types[source], kind),
            **self._named(node),
        )
        self._put(node, made, self.key_types[source], kind, "table")

    def _flat_map(self, node: dict[str, Any]) -> None:
        if "pairs" in node:
            parts = [
                (self._function(k, node, "key", "value"), self._function(v, node, "key", "value"))
                for k, v in node["pairs"]
            ]
            key_type, value_type = parts[0][0][1], parts[0][1][1]
            pairs = [(key[0], value[0]) for key, value in parts]

            def function(k: Any, v: Any) -> list[Any]:
                return [(key(k, v), value(k, v)) for key, value in pairs]

        else:
            text, _ = self._function(node["split"], node, "key", "value")
            key, key_type = self._function(node["key"], node, "key", "value", "word", word="string")
            value, value_type = self._function(node["value"], node, "key", "value", "word", word="string")

            def function(k: Any, v: Any) -> list[Any]:
                return [(key(k, v, word), value(k, v, word)) for word in (text(k, v) or "").split(" ") if word]

        made = self.made[node["from"]].flat_map(
            function, key=TYPES[key_type], value=TYPES[value_type], **self._named(node)
        )
        self._put(node, made, key_type, value_type, "stream")

    def _flat_map_values(self, node: dict[str, Any]) -> None:
        if "values" in node:
            parts = [self._function(v, node, "key", "value") for v in node["values"]]
            kind = parts[0][1]
            values = [value for value, _ in parts]

            def function(k: Any, v: Any) -> list[Any]:
                return [value(k, v) for value in values]

        else:
            text, _ = self._function(node["split"], node, "key", "value")
            value, kind = self._function(node["value"], node, "key", "value", "word", word="string")

            def function(k: Any, v: Any) -> list[Any]:
                return [value(k, v, word) for word in (text(k, v) or "").split(" ") if word]

        made = self.made[node["from"]].flat_map_values(function, value=TYPES[kind], **self._named(node))
        self._put(node, made, self.key_types[node["from"]], kind, "stream")

    def _split(self, node: dict[str, Any]) -> None:
        source = node["from"]
        branches = {b["id"]: compile_expression(b["when"], ("key", "value")) for b in node["branches"]}
        made = self.made[source].split(branches, default=node.get("default"))
        for name, stream in made.items():
            self._put({"id": name}, stream, self.key_types[source], self.value_types[source], "stream")

    def _merge(self, node: dict[str, Any]) -> None:
        first, *rest = node["from"]
        stream = self.made[first]
        for other in rest:
            stream = stream.merge(self.made[other])
        self._put(node, stream, self.key_types[first], self.value_types[first], "stream")

    def _repartition(self, node: dict[str, Any]) -> None:
        made = self.made[node["from"]].repartition(**self._named(node))
        self._put(node, made, self.key_types[node["from"]], self.value_types[node["from"]], "stream")

    def _to_table(self, node: dict[str, Any]) -> None:
        key, value = self._types(node["from"]).values()
        made = self.made[node["from"]].to_table(store=self._store(node, "kv", key, value), **self._named(node))
        self._put(node, made, key, value, "table")

    def _to_stream(self, node: dict[str, Any]) -> None:
        source = node["from"]
        if "key" in node:
            function, kind = self._function(node["key"], node, "key", "value")
            made = self.made[source].to_stream(function, key_serde=TYPES[kind])
        else:
            kind, made = self.key_types[source], self.made[source].to_stream(**self._named(node))
        self._put(node, made, kind, self.value_types[source], "stream")

    def _suppress(self, node: dict[str, Any]) -> None:
        if node["until"] == "window_closes":
            until = until_window_closes(max_records=node.get("max_records"))
        else:
            until = until_time_limit(
                node["limit_ms"],
                max_records=node.get("max_records"),
                when_full=node.get("when_full", "emit_early"),
            )
        self._put(
            node,
            self.made[node["from"]].suppress(until),
            self.key_types[node["from"]],
            self.value_types[node["from"]],
            "table",
        )

    # ----- grouping and aggregation ----------------------------------------------------------------------------

    def _group_by_key(self, node: dict[str, Any]) -> None:
        made = self.made[node["from"]].group_by_key(**self._named(node))
        self._put(node, made, self.key_types[node["from"]], self.value_types[node["from"]], "grouped")

    def _group_by(self, node: dict[str, Any]) -> None:
        key, key_type = self._function(node["key"], node, "key", "value")
        source = node["from"]
        if self.kinds[source] == "table":
            value, value_type = self._function(node["value"], node, "key", "value")
            made = self.made[source].group_by(
                lambda k, v: (key(k, v), value(k, v)),
                key=TYPES[key_type],
                value=TYPES[value_type],
                **self._named(node),
            )
            self._put(node, made, key_type, value_type, "grouped table")
            return
        made = self.made[source].group_by(key, key=TYPES[key_type], **self._named(node))
        self._put(node, made, key_type, self.value_types[source], "grouped")

    def _window(self, spec: dict[str, Any]) -> Any:
        kind = spec["type"]
        if kind == "tumbling":
            return tumbling(spec["size_ms"], grace=spec["grace_ms"])
        if kind == "hopping":
            return hopping(spec["size_ms"], spec["advance_ms"], grace=spec["grace_ms"])
        if kind == "sliding":
            return sliding(spec["difference_ms"], grace=spec["grace_ms"])
        if kind == "session":
            return session(spec["gap_ms"], grace=spec["grace_ms"])
        return unlimited(spec.get("start_ms", 0))

    def _windowed_by(self, node: dict[str, Any]) -> None:
        made = self.made[node["from"]].windowed_by(self._window(node["window"]), emit=node.get("emit", "update"))
        self._put(node, made, self.key_types[node["from"]], self.value_types[node["from"]], "windowed")
        self.windows[node["id"]] = node["window"]

    def _aggregated(self, node: dict[str, Any], make: Any, value: str) -> None:
        source = node["from"]
        key = self.key_types[source]
        kind, result_key = "kv", key
        if source in self.windows:
            window = self.windows[source]
            kind, result_key = ("session" if window["type"] == "session" else "window"), f"windowed {key}"
        store = self._store(node, kind, key, value)
        self._put(node, make(store), result_key, value, "table")

    def _count(self, node: dict[str, Any]) -> None:
        self._aggregated(node, lambda store: self.made[node["from"]].count(store=store, **self._named(node)), "long")

    def _reduce(self, node: dict[str, Any]) -> None:
        source = self.made[node["from"]]
        kind = self.value_types[node["from"]]
        names = ("adder", "subtractor") if "adder" in node else ("reducer",)
        functions = [compile_expression(node[name], ("agg", "value")) for name in names]
        self._aggregated(
            node, lambda store: source.reduce(*functions, value=TYPES[kind], store=store, **self._named(node)), kind
        )

    def _aggregate(self, node: dict[str, Any]) -> None:
        source = self.made[node["from"]]
        kind = result_type(node["init"], {})
        init = compile_expression(node["init"], ())
        if "adder" in node:
            functions = [compile_expression(node[n], ("key", "value", "agg")) for n in ("adder", "subtractor")]
        else:
            functions = [compile_expression(node["aggregator"], ("key", "value", "agg"))]
            if "merger" in node:
                functions.append(compile_expression(node["merger"], ("key", "left", "right")))
        self._aggregated(
            node,
            lambda store: source.aggregate(init, *functions, value=TYPES[kind], store=store, **self._named(node)),
            kind,
        )

    def _cogroup(self, node: dict[str, Any]) -> None:
        first, *rest = node["parts"]
        kind = result_type(node["init"], {})
        made = self.made[first["from"]].cogroup(compile_expression(first["aggregator"], ("key", "value", "agg")))
        for part in rest:
            made = made.cogroup(
                self.made[part["from"]], compile_expression(part["aggregator"], ("key", "value", "agg"))
            )
        key = self.key_types[first["from"]]
        store_kind, result_key = "kv", key
        if "window" in node:
            made = made.windowed_by(self._window(node["window"]))
            store_kind = "session" if node["window"]["type"] == "session" else "window"
            result_key = f"windowed {key}"
        functions = [compile_expression(node["init"], ())]
        if "merger" in node:
            functions.append(compile_expression(node["merger"], ("key", "left", "right")))
        store = self._store(node, store_kind, key, kind)
        self._put(node, made.aggregate(*functions, value=TYPES[kind], store=store), result_key, kind, "table")

    # ----- joins -----------------------------------------------------------------------------------------------

    def _joiner(self, node: dict[str, Any]) -> tuple[Any, str]:
        types = {
            "key": self.key_types[node["from"]],
            "left": self.value_types[node["from"]],
            "right": self.value_types[node["with"]],
        }
        return compile_expression(node["joiner"], ("key", "left", "right")), result_type(node["joiner"], types)

    def _join(self, node: dict[str, Any], kind: str, *args: Any, **options: Any) -> None:
        joiner, value = self._joiner(node)
        left, right = self.made[node["from"]], self.made[node["with"]]
        method = getattr(left, "join" if node["kind"] == "inner" else f"{node['kind']}_join")
        if kind == "table" and "store" in node:
            options["store"] = self._store(node, "kv", self.key_types[node["from"]], value)
        made = method(right, joiner, *args, value=TYPES[value], **options, **self._named(node))
        self._put(node, made, self.key_types[node["from"]], value, kind)

    def _stream_stream_join(self, node: dict[str, Any]) -> None:
        window = node["window"]
        if "legacy_ms" in window:
            d = window["legacy_ms"]
            made = join_window(d, grace=max(24 * 3_600_000 - 2 * d, 0), eager=True)
        else:
            made = join_window(before=window["before_ms"], after=window["after_ms"], grace=window["grace_ms"])
        self._join(node, "stream", made)

    def _stream_table_join(self, node: dict[str, Any]) -> None:
        self._join(node, "stream", **({"grace": node["grace_ms"]} if "grace_ms" in node else {}))

    def _stream_global_join(self, node: dict[str, Any]) -> None:
        self._join(node, "stream", on=compile_expression(node["key"], ("key", "value")))

    def _table_table_join(self, node: dict[str, Any]) -> None:
        self._join(node, "table")

    def _fk_join(self, node: dict[str, Any]) -> None:
        self._join(node, "table", on=compile_expression(node["fk"], ("key", "value")))

    # ----- processors ------------------------------------------------------------------------------------------

    def _process(self, node: dict[str, Any]) -> None:
        source = node["from"]
        key, value = self.key_types[source], self.value_types[source]
        supplier, stores, out_key, out_value = make_processor(node, key, value)
        for store in stores:
            self.app.add_store(store["name"], store["kind"], **store["options"])
            self.stores.append(store["shape"])
        names = [store["name"] for store in stores]
        if node["op"] == "process":
            made = self.made[source].process(
                supplier, *names, key=TYPES[out_key], value=TYPES[out_value], **self._named(node)
            )
        else:
            made = self.made[source].process_values(supplier, *names, value=TYPES[out_value], **self._named(node))
            out_key = key
        self._put(node, made, out_key, out_value, "stream")

    _process_values = _process
