"""Millstream: Kafka Streams' programming model for Python, run by Apache Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.core.records import Record, Windowed
from millstream.dsl.app import App
from millstream.dsl.cogrouped import CogroupedStream
from millstream.dsl.contracts import contract, hmac, mask, rule
from millstream.dsl.grouped import GroupedStream, GroupedTable
from millstream.dsl.options import Materialized, Suppressed, until_time_limit, until_window_closes
from millstream.dsl.processors import Cancellable, FixedKeyProcessor, Processor, ProcessorContext, RecordMetadata
from millstream.dsl.stream import JoinedStream, Stream
from millstream.dsl.table import GlobalTable, Table, WindowedTable
from millstream.dsl.windowed import WindowedStream
from millstream.dsl.windows import hopping, join_window, session, sliding, tumbling, unlimited
from millstream.errors import MillstreamError, TopologyError, TopologyWarning
from millstream.expr import (
    Expr,
    agg,
    array,
    col,
    functions,
    header,
    key,
    left,
    lit,
    right,
    struct,
    timestamp,
    value,
    when,
)
from millstream.expr.aggregates import (
    avg,
    collect,
    count,
    count_distinct,
    first,
    last,
    max_,
    min_,
    sum_,
    top_k,
)
from millstream.serde import Serde

if TYPE_CHECKING:
    from millstream.connect.debezium import debezium, debezium_key
    from millstream.engine.context import DroppedRecord
    from millstream.engine.errors import ErrorContext
    from millstream.runtime.handle import Handle
    from millstream.schemas.avro import avro
    from millstream.schemas.json_schema import json_schema
    from millstream.schemas.protobuf import protobuf
    from millstream.testing import TestDriver

__all__ = [
    "App",
    "Cancellable",
    "CogroupedStream",
    "DroppedRecord",
    "ErrorContext",
    "Expr",
    "FixedKeyProcessor",
    "GlobalTable",
    "GroupedStream",
    "GroupedTable",
    "Handle",
    "JoinedStream",
    "Materialized",
    "MillstreamError",
    "Processor",
    "ProcessorContext",
    "Record",
    "RecordMetadata",
    "Serde",
    "Stream",
    "Suppressed",
    "Table",
    "TestDriver",
    "TopologyError",
    "TopologyWarning",
    "Windowed",
    "WindowedStream",
    "WindowedTable",
    "agg",
    "array",
    "avg",
    "avro",
    "col",
    "collect",
    "contract",
    "count",
    "count_distinct",
    "debezium",
    "debezium_key",
    "first",
    "functions",
    "header",
    "hmac",
    "hopping",
    "join_window",
    "json_schema",
    "key",
    "last",
    "left",
    "lit",
    "mask",
    "max_",
    "min_",
    "protobuf",
    "right",
    "rule",
    "session",
    "sliding",
    "struct",
    "sum_",
    "timestamp",
    "top_k",
    "tumbling",
    "unlimited",
    "until_time_limit",
    "until_window_closes",
    "value",
    "when",
]


_ON_DEMAND = {
    "avro": "millstream.schemas.avro",
    "debezium": "millstream.connect.debezium",
    "debezium_key": "millstream.connect.debezium",
    "DroppedRecord": "millstream.engine.context",
    "ErrorContext": "millstream.engine.errors",
    "Handle": "millstream.runtime.handle",
    "TestDriver": "millstream.testing",
    "json_schema": "millstream.schemas.json_schema",
    "protobuf": "millstream.schemas.protobuf",
}


def __getattr__(name: str) -> Any:
    """Imports engine, runtime, test driver and schemas on first use, to keep ``import millstream`` short."""
    if name in _ON_DEMAND:
        import importlib  # noqa: PLC0415

        return getattr(importlib.import_module(_ON_DEMAND[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
