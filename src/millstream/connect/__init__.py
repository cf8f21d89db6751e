"""Connectors: they move records between topics and other systems, and keep their position with the data."""

from __future__ import annotations

from millstream.connect.api import (
    RefusedRecords,
    Sink,
    SinkContext,
    SinkRecord,
    SinkWriter,
    Source,
    SourceBatch,
    SourceContext,
    SourceRecord,
    Transform,
)
from millstream.connect.connector import Connector, SinkConnector, SourceConnector, sink_connector, source_connector

__all__ = [
    "Connector",
    "SinkConnector",
    "SourceConnector",
    "sink_connector",
    "source_connector",
    "RefusedRecords",
    "Sink",
    "SinkContext",
    "SinkRecord",
    "SinkWriter",
    "Source",
    "SourceBatch",
    "SourceContext",
    "SourceRecord",
    "Transform",
]
