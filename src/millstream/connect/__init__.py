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
from millstream.connect.connector import (
    Connector,
    SinkConnector,
    SourceConnector,
    connector_of,
)
from millstream.connect.lookup import LookupTable

__all__ = [
    "Connector",
    "LookupTable",
    "RefusedRecords",
    "Sink",
    "SinkConnector",
    "SinkContext",
    "SinkRecord",
    "SinkWriter",
    "Source",
    "SourceBatch",
    "SourceConnector",
    "SourceContext",
    "SourceRecord",
    "Transform",
    "connector_of",
]
