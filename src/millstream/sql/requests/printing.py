"""PRINT: the records of a topic as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from millstream.core.records import Windowed
from millstream.errors import MillstreamError, SqlStatementError, suggestion
from millstream.schemas.registries import ApplicationRegistry
from millstream.serde.api import Serde, SerdeContext
from millstream.sql.catalog.sources import Column, DataSource
from millstream.sql.formats.json_format import parse
from millstream.sql.formats.numbers import to_base64
from millstream.sql.functions.java.calendar import timestamp_text
from millstream.sql.lowering.serdes import SourceSerdes
from millstream.sql.requests.deployment import Deployment, TopicReader, TopicRecord
from millstream.sql.requests.json_values import json_text, json_value
from millstream.sql.syntax import tree

_Reader = Callable[[bytes | None], str]


class PrintedTopic:
    """The records of a topic as lines of text, as they come.

    The catalog's source that owns the topic says how they are read; a topic without one is shown as JSON, as text, or
    as base64, whatever its bytes are first.
    """

    def __init__(
        self,
        statement: tree.Print,
        sources: Iterable[DataSource],
        deployment: Deployment,
        serdes: SourceSerdes,
        registry: ApplicationRegistry | None,
    ) -> None:
        known = {info.name for info in deployment.topics()}
        if statement.topic not in known:
            raise SqlStatementError(
                f"Could not find topic '{statement.topic}'. Topic names are case-sensitive.",
                hint=suggestion(statement.topic, known) or "SHOW TOPICS lists the topics",
                at=statement.at,
            )
        owner = next((source for source in sources if source.topic == statement.topic), None)
        self._key: _Reader = _guessed
        self._value: _Reader = _guessed
        if owner is not None:
            key = serdes.key(owner).bind(SerdeContext(owner.topic, True, registry))
            value = serdes.value(owner).bind(SerdeContext(owner.topic, False, registry))
            self._key = _decoder(key, owner.key, is_key=True)
            self._value = _decoder(value, owner.value, is_key=False)
        self._formats = (
            []
            if owner is None
            else [f"Key format: {owner.key_format.name}", f"Value format: {owner.value_format.name}"]
        )
        self._interval = max(1, statement.interval or 1)
        self._left = statement.limit
        self._seen = 0
        self._reader: TopicReader = deployment.read(statement.topic, from_beginning=statement.from_beginning)

    def poll(self, timeout: float = 0.1) -> Sequence[str]:
        """Returns lines that have come; waits at most `timeout` seconds for the first."""
        lines, self._formats = self._formats, []
        for record in [] if self.finished else self._reader.poll(timeout):
            self._seen += 1
            if self.finished:
                break
            if (self._seen - 1) % self._interval == 0:
                lines.append(self._line(record))
                if self._left is not None:
                    self._left -= 1
        if self.finished:
            self.close()
        return lines

    def _line(self, record: TopicRecord) -> str:
        time = timestamp_text(record.timestamp).replace("-", "/").replace("T", " ")
        key, value = self._key(record.key), self._value(record.value)
        return f"rowtime: {time} Z, key: {key}, value: {value}, partition: {record.partition}"

    @property
    def finished(self) -> bool:
        """Whether LIMIT is reached; otherwise, the topic may get more records."""
        return self._left == 0

    @property
    def at_end(self) -> bool:
        """Whether all records that the topic had at the start have been printed."""
        return self._reader.at_end

    def close(self) -> None:
        """Stops reading."""
        self._reader.close()


def _decoder(serde: Serde[Any], columns: Sequence[Column], *, is_key: bool) -> _Reader:
    def read(data: bytes | None) -> str:
        if data is None:
            return "<null>"
        try:
            item: Any = serde.deserialize(data)
        except MillstreamError:
            return _guessed(data)
        window = item if isinstance(item, Windowed) else None
        plain: Any = item.key if isinstance(item, Windowed) else item
        if is_key:
            parts = (plain,) if len(columns) == 1 else plain or ()
            plain = dict(zip((column.name for column in columns), parts, strict=False))
        shown = {column.name: json_value(plain.get(column.name), column.type) for column in columns}
        text = json_text(shown if len(columns) != 1 or not is_key else shown[columns[0].name])
        return text if window is None else f"[{text}@{window.start}/{window.end}]"

    return read


def _guessed(data: bytes | None) -> str:
    if data is None:
        return "<null>"
    try:
        return json_text(parse(data))
    except ValueError:
        pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return to_base64(data)
