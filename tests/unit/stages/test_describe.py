"""Descriptions of topologies, compared with those of Kafka Streams for the same topologies."""

from __future__ import annotations

import json
import re
from textwrap import dedent
from typing import Any

import pytest
from tests.conformance.interpreter import Topology as VectorTopology
from tests.conformance.vectors import FOLDER, load

from millstream import (
    App,
    Processor,
    Record,
    Stream,
    TopologyError,
    col,
    join_window,
    left,
    right,
    tumbling,
    until_window_closes,
    value,
)
from millstream.errors import ConfigError


def text(expected: str) -> str:
    """A golden text, indented as the code around it; Kafka Streams ends its last sub-topology with an empty line."""
    return dedent(expected).lstrip("\n")


def word_count() -> App:
    app = App("word-count")
    words = app.stream("lines", value=str).flat_map_values(lambda line: line.split(), value=str)
    words.select_key(lambda word: word, key=str).group_by_key().count(store="counts").to_stream().to("word-counts")
    return app


def test_word_count() -> None:
    assert word_count().describe() == text("""
        Topologies:
           Sub-topology: 0
            Source: lines-source (topics: [lines])
              --> lines-flat-map-values
            Processor: lines-flat-map-values (stores: [])
              --> lines-select-key
              <-- lines-source
            Processor: lines-select-key (stores: [])
              --> counts-repartition-sink
              <-- lines-flat-map-values
            Sink: counts-repartition-sink (topic: counts-repartition)
              <-- lines-select-key

          Sub-topology: 1
            Source: counts-repartition-source (topics: [counts-repartition])
              --> lines-count
            Processor: lines-count (stores: [counts])
              --> counts-to-stream
              <-- counts-repartition-source
            Processor: counts-to-stream (stores: [])
              --> word-counts-sink
              <-- lines-count
            Sink: word-counts-sink (topic: word-counts)
              <-- counts-to-stream

    """)


def test_a_stream_table_join_shows_the_store_in_which_it_looks_rows_up() -> None:
    app = App("enrich")
    users = app.table("users", value=dict).filter(col("active"))
    app.stream("orders", value=dict).join(users, lambda order, _user: order).to("enriched")
    assert app.describe() == text("""
        Topologies:
           Sub-topology: 0
            Source: users-source (topics: [users])
              --> users-table
            Processor: users-table (stores: [users-table-store])
              --> users-filter
              <-- users-source
            Processor: users-filter (stores: [])
              --> none
              <-- users-table
            Source: orders-source (topics: [orders])
              --> orders-users-join
            Processor: orders-users-join (stores: [users-table-store])
              --> enriched-sink
              <-- orders-source
            Sink: enriched-sink (topic: enriched)
              <-- orders-users-join

    """)


def test_a_global_table_is_a_sub_topology_without_tasks() -> None:
    app = App("global")
    shops = app.global_table("shops", store="shops-by-id")
    app.stream("orders", "returns").join(shops, lambda order, _shop: order, on=col("shop")).to("out")
    assert app.describe() == text("""
        Topologies:
           Sub-topology: 0
            Source: orders-returns-source (topics: [orders, returns])
              --> orders-returns-shops-global-table-join
            Processor: orders-returns-shops-global-table-join (stores: [])
              --> out-sink
              <-- orders-returns-source
            Sink: out-sink (topic: out)
              <-- orders-returns-shops-global-table-join

          Sub-topology: 1 for global store (will not generate tasks)
            Source: shops-global-table-source (topics: [shops])
              --> shops-global-table
            Processor: shops-global-table (stores: [shops-by-id])
              --> none
              <-- shops-global-table-source
    """)


def test_split_and_merge_and_topics_without_fixed_names() -> None:
    app = App("routing")
    branches = app.stream(pattern="log-.*", name="logs").split({"errors": value().starts_with("E")}, default="rest")
    branches["errors"].merge(branches["rest"], name="all").to(value())
    branches["rest"].to(route)
    # Derived names below a named source of a pattern begin with its name.
    assert app.describe() == text(f"""
        Topologies:
           Sub-topology: 0
            Source: logs (topics: log-.*)
              --> logs-split
            Processor: logs-split (stores: [])
              --> logs-split-errors, logs-split-rest
              <-- logs
            Processor: logs-split-errors (stores: [])
              --> all
              <-- logs-split
            Processor: logs-split-rest (stores: [])
              --> all, logs-rest-sink
              <-- logs-split
            Processor: all (stores: [])
              --> all-sink
              <-- logs-split-errors, logs-split-rest
            Sink: all-sink (extractor class: value)
              <-- all
            Sink: logs-rest-sink (extractor class: test_describe.py:{route.__code__.co_firstlineno} in route)
              <-- logs-split-rest

    """)


def route(line: str) -> str:
    return f"topic-{line[0]}"


def test_foreign_key_join() -> None:
    app = App("orders")
    customers = app.table("customers", value=dict)
    app.table("orders", value=dict).join(customers, lambda o, c: [o, c], on=col("who"), name="both").to_stream().to(
        "out"
    )
    assert app.describe() == text("""
        Topologies:
           Sub-topology: 0
            Source: customers-source (topics: [customers])
              --> customers-table
            Processor: customers-table (stores: [customers-table-store])
              --> both-answer
              <-- customers-source
            Source: both-subscription-repartition-source (topics: [both-subscription-repartition])
              --> both-answer
            Processor: both-answer (stores: [both-subscriptions-store, customers-table-store])
              --> both-answer-repartition-sink
              <-- both-subscription-repartition-source, customers-table
            Sink: both-answer-repartition-sink (topic: both-answer-repartition)
              <-- both-answer

          Sub-topology: 1
            Source: orders-source (topics: [orders])
              --> orders-table
            Processor: orders-table (stores: [orders-table-store])
              --> both-subscribe
              <-- orders-source
            Processor: both-subscribe (stores: [])
              --> both-subscription-repartition-sink
              <-- orders-table
            Sink: both-subscription-repartition-sink (topic: both-subscription-repartition)
              <-- both-subscribe
            Source: both-answer-repartition-source (topics: [both-answer-repartition])
              --> both
            Processor: both (stores: [orders-table-store])
              --> both-to-stream
              <-- both-answer-repartition-source
            Processor: both-to-stream (stores: [])
              --> out-sink
              <-- both
            Sink: out-sink (topic: out)
              <-- both-to-stream

    """)


def processors(app: App) -> dict[str, str]:
    return dict(re.findall(r"Processor: (\S+) \(stores: \[(.*)\]\)", app.describe()))


class Remember(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.store("seen").put(record.key, record.value)


def test_which_stores_are_shown() -> None:
    app = App("stores")
    app.add_store("seen")
    app.add_store("unused")
    one, two = app.stream("one", value=str), app.stream("two", value=str)
    one.process(Remember, "seen", name="remember")
    group = one.group_by_key().cogroup(lambda _v, agg: agg).cogroup(two.group_by_key(), lambda _v, agg: agg)
    group.aggregate(lambda: 0, value=int, store="both", name="cogroup")
    one.left_join(two, lambda a, _b: a, join_window("5s"), name="pairs")
    counts = one.group_by_key().windowed_by(tumbling("1m")).count(store="counts")
    held = counts.suppress(until_window_closes())
    held.to_stream().to("final")
    app.table("unread", name="unread").to_stream().to("copy")
    cats, dogs = app.table("cats", name="cats"), app.table("dogs", store="dogs", name="dogs")
    cats.join(dogs.map_values(len), lambda a, _b: a, name="pets").filter(bool).to_stream().to("both-pets")
    counts.filter(bool).outer_join(held, lambda a, _b: a, name="all")
    stores = processors(app)
    assert stores["remember"] == "seen"
    assert (stores["cogroup-part-1"], stores["cogroup-part-2"], stores["cogroup"]) == ("both", "both", "")
    assert stores["pairs"] == "pairs-left-store, pairs-right-store, pairs-left-unmatched-store"
    assert (stores["unread"], stores["cats"], stores["dogs"]) == ("", "cats-store", "dogs")
    assert stores["pets"] == "cats-store, dogs"
    # A look-up passes through operators without a store, and reads the buffer of suppress.
    assert stores["all"] == "counts, counts-suppress-store"
    # An operator below suppress needs old values, so suppress also stores the values that it has sent.
    assert stores["counts-suppress"] == "counts-suppress-store, counts-suppress-sent-store"
    assert "unused" not in app.describe()


def test_a_repartition_has_two_names_which_no_operator_has() -> None:
    app = App("names")
    app.stream("in").select_key(col("a")).repartition(name="x").filter(col("b"), name="x-repartition-sink").to("out")
    names = re.findall(r"(?:Source|Processor|Sink): (\S+)", app.describe())
    assert names == [
        "in-source",
        "in-select-key",
        "x-repartition-sink-2",
        "x-repartition-source",
        "x-repartition-sink",
        "out-sink",
    ]


def test_an_unknown_format() -> None:
    with pytest.raises(ConfigError, match=r"there is no format 'mermade'\n.*mermaid"):
        word_count().describe("mermade")  # type: ignore[arg-type]


def test_mermaid() -> None:
    app = App("diagram")
    shops = app.global_table("shops")
    orders: Stream = app.stream("orders.v1").join(shops, left("id") + right("id"), on=col("shop"), name="with-shop")
    orders.group_by(value(), name="by").count(store="counts").to_stream().to(lambda _key, _count: 'the "best"')
    shown = re.sub(r"test_describe\.py:\d+", "test_describe.py:7", app.describe("mermaid"))
    assert shown == text("""
        flowchart TD
          subgraph p0["Sub-topology 0"]
            n0["orders.v1-source"]
            n1["with-shop<br/>stream-global-join"]
            n2["orders.v1-select-key"]
            n3["by-repartition-sink"]
          end
          subgraph p1["Sub-topology 1"]
            n4["by-repartition-source"]
            n5["orders.v1-count<br/>aggregate"]
            n6["counts-to-stream"]
            n7["counts-sink"]
            s0[("counts")]
          end
          subgraph p2["Sub-topology 2 (global)"]
            n8["shops-global-table-source"]
            n9["shops-global-table"]
            s1[("shops-global-table-store")]
          end
          t0(["orders.v1"])
          t1(["by-repartition"])
          t2(["chosen by test_describe.py:7 in #60;lambda#62;"])
          t3(["shops"])
          t0 --> n0
          n0 --> n1
          n1 --> n2
          n1 -.- s1
          n2 --> n3
          n3 --> t1
          t1 --> n4
          n4 --> n5
          n5 --> n6
          n5 --- s0
          n6 --> n7
          n7 --> t2
          t3 --> n8
          n8 --> n9
          n9 --- s1
    """)


_STRING = {"serde": "string", "format": None, "subject": None, "type": "STRING", "nullable": False}
_ANY_JSON = {"serde": "json", "format": None, "subject": None, "type": None}


def test_json() -> None:
    app = App("plain")
    orders = app.stream("orders").filter(col("amount") > 10).select_key(route, key=str)
    orders.group_by_key().aggregate(dict, lambda _v, agg: agg, value=dict, store="sums")
    description = json.loads(app.describe("json"))
    assert description["application_id"] == "plain"
    writes, reads = description["sub_topologies"]
    assert (writes["id"], writes["global"], writes["stores"]) == (0, False, [])
    source, keep, key, sink = writes["nodes"]
    assert re.fullmatch(r"test_describe\.py:\d+", source.pop("at"))
    assert source == {
        "name": "orders-source",
        "type": "source",
        "operator": "orders-source",
        "kind": "source",
        "parents": [],
        "children": ["orders-filter"],
        "stores": [],
        "global_stores": [],
        "topics": ["orders"],
        "pattern": None,
        "schema": {"key": _STRING, "value": _ANY_JSON},
        "functions": {},
        "expressions": {},
    }
    assert (keep["expressions"], keep["functions"]) == ({"predicate": "amount > 10"}, {})
    line = route.__code__.co_firstlineno
    assert (key["expressions"], key["functions"]) == ({}, {"function": f"test_describe.py:{line} in route"})
    assert (sink["type"], sink["kind"], sink["operator"]) == ("sink", "repartition", "sums-repartition")
    assert (sink["topics"], sink["parents"]) == (["plain-sums-repartition"], ["orders-select-key"])
    assert [node["name"] for node in reads["nodes"]] == ["sums-repartition-source", "orders-aggregate"]
    assert set(reads["nodes"][1]["functions"]) == {"aggregation.init", "aggregation.add"}
    assert reads["nodes"][1]["stores"] == ["sums"]
    changelog = "plain-sums-changelog"
    assert reads["stores"] == [
        {"name": "sums", "kind": "key-value", "key": "string", "value": "json", "changelog": changelog}
        | {"key_schema": _STRING, "value_schema": _ANY_JSON}
    ]


def test_json_is_always_the_same() -> None:
    assert word_count().describe("json") == word_count().describe("json")
    assert list(json.loads(word_count().describe("json"))) == ["application_id", "sub_topologies"]


def test_a_processor_in_json_names_its_supplier() -> None:
    app = App("processing")
    app.add_store("seen")
    app.stream("in").process(Remember, "seen")
    node = json.loads(app.describe("json"))["sub_topologies"][0]["nodes"][1]
    assert node["functions"]["supplier"].endswith("Remember")
    assert node["stores"] == ["seen"]


# ----- as Kafka Streams says it ------------------------------------------------------------------------------------

_NODE = re.compile(r" {4}(Source|Processor|Sink): (\S+) \((?:topics|topic|stores|extractor class): (.*)\)")
_PART = re.compile(r" {2,3}Sub-topology: \d+( for global store \(will not generate tasks\))?")
_LINK = re.compile(r" {6}(-->|<--) (.*)")


def parse(description: str) -> list[dict[str, Any]]:
    """Parses the text as a visualizer does, and checks that both ends of every link contain it."""
    first, *lines = description.splitlines()
    assert first == "Topologies:"
    assert lines[0].startswith("   Sub-topology: 0")
    parts: list[dict[str, Any]] = []
    node: dict[str, Any] = {}
    for line in filter(None, lines):
        if title := _PART.fullmatch(line):
            parts.append({"global": bool(title[1]), "nodes": {}})
        elif element := _NODE.fullmatch(line):
            node = parts[-1]["nodes"][element[2]] = {"type": element[1], "of": element[3], "-->": [], "<--": []}
        else:
            link = _LINK.fullmatch(line)
            assert link, line
            node[link[1]] = [] if link[2] == "none" else link[2].split(", ")
    for part in parts:
        for name, node in part["nodes"].items():
            assert all(name in part["nodes"][child]["<--"] for child in node["-->"])
            assert all(name in part["nodes"][parent]["-->"] for parent in node["<--"])
    return parts


def shape(parts: list[dict[str, Any]]) -> list[Any]:
    """The topics that each sub-topology reads and writes, and its stores with names of the user.

    Internal topics are counted only: their names differ from those of Kafka Streams.
    """
    shapes = []
    for part in parts:
        seen: dict[str, list[str]] = {"Source": [], "Processor": [], "Sink": []}
        for node in part["nodes"].values():
            for item in node["of"].strip("[]").split(", "):
                seen[node["type"]].append("internal" if re.search("-repartition$|-topic$", item) else item)
        own = {s for s in seen["Processor"] if s and not re.search("-store$|STATE-STORE|-Buffer$", s)}
        shapes.append((part["global"], sorted(seen["Source"]), sorted(seen["Sink"]), sorted(own)))
    return sorted(shapes)


@pytest.mark.parametrize("family", sorted(file.stem for file in FOLDER.glob("*.jsonl")))
def test_sub_topologies_are_those_of_kafka_streams(family: str) -> None:
    for vector in load(family):
        try:
            app, _stores = VectorTopology(vector).build()
        except TopologyError:
            continue
        if "describe" in vector:
            assert shape(parse(app.describe())) == shape(parse(vector["describe"])), vector["name"]
