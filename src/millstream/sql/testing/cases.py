"""Test files: the cases in them, with formats and configurations expanded."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from millstream.core.frozen import Frozen
from millstream.errors import MillstreamError
from millstream.sql.testing.relaxed_json import loads
from millstream.sql.testing.sql_files import SqlCase, read_sql


class CaseFileError(MillstreamError):
    """A test file cannot be read."""

    code = "test-file"


class Window(Frozen):
    """The window of a key: kind is TIME or SESSION."""

    start: int
    end: int
    kind: str


class Record(Frozen):
    """A record of a test file; key and value are JSON. ``timestamp`` is None if the file does not give one."""

    topic: str
    key: Any
    value: Any
    timestamp: int | None = None
    window: Window | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Topic(Frozen):
    """A topic that exists before the statements run, with its schemas."""

    name: str
    partitions: int = 1
    key_format: str | None = None
    value_format: str | None = None
    key_schema: Any = None
    value_schema: Any = None
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    key_references: tuple[tuple[str, Any], ...] = ()
    value_references: tuple[tuple[str, Any], ...] = ()


class ExpectedError(Frozen):
    """The error that a case must end with; ``type`` is the last part of the name of a Java class."""

    type: str
    message: str
    status: int | None = None

    @property
    def is_syntax(self) -> bool:
        """Whether the text of a statement is wrong, rather than its meaning."""
        return self.type == "ParseFailedException"


class Case(Frozen):
    """A case of a QTT file, or of an RQTT file if ``rest`` is set."""

    name: str
    statements: tuple[str, ...]
    properties: dict[str, Any]
    topics: tuple[Topic, ...]
    inputs: tuple[Record, ...]
    outputs: tuple[Record, ...]
    expected_error: ExpectedError | None
    post: dict[str, Any]
    rest: bool = False
    responses: tuple[Any, ...] = ()
    wait_for_push_query: bool = False
    verify_order: bool = False
    proto_format: bool = False


AnyCase = Case | SqlCase


def read_cases(path: Path) -> list[AnyCase]:
    """Reads a test file; a name that ends in ``.sql`` is a file of statements, all others are JSON.

    Raises:
        CaseFileError: The file cannot be read, or is not a test file.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".sql":
            return list(read_sql(text, path.stem, path.parent))
        return list(_cases(loads(text), path))
    except (OSError, ValueError) as error:
        raise CaseFileError(f"{path} cannot be read: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise CaseFileError(
            f"{path} is not a test file: {type(error).__name__}: {error}", hint='it has {"tests": [...]}'
        ) from error


def _cases(data: Mapping[str, Any], path: Path) -> Iterator[Case]:
    for node in data["tests"]:
        if node.get("enabled", True) is False:
            continue
        for format_ in node.get("format") or [None]:
            for config in node.get("config") or [None]:
                yield _case(node, path, format_, config)


def _case(node: Mapping[str, Any], path: Path, format_: str | None, config: str | None) -> Case:
    properties = dict(node.get("properties") or {})
    name = f"{path.stem} - {node['name']}"
    if format_ is not None:
        name += f" - {format_}"
    if config is not None:
        changed = next(key for key, value in properties.items() if value == "{CONFIG}")
        properties[changed] = config
        name += f" - {changed}={config}"
    statements = [text if format_ is None else text.replace("{FORMAT}", format_) for text in node["statements"]]
    is_rest = "responses" in node or "expectedError" in node or path.parent.name == "rest-query-validation-tests"
    return Case(
        name=name,
        statements=tuple(statements),
        properties=properties,
        topics=tuple(_topic(topic) for topic in node.get("topics") or ()),
        inputs=tuple(_record(record) for record in node.get("inputs") or ()),
        outputs=tuple(_record(record) for record in node.get("outputs") or ()),
        expected_error=_expected_error(node.get("expectedException") or node.get("expectedError")),
        post=node.get("post") or {},
        rest=is_rest,
        responses=tuple(node.get("responses") or ()),
        wait_for_push_query=bool((node.get("inputConditions") or {}).get("waitForActivePushQuery")),
        verify_order=bool((node.get("outputConditions") or {}).get("verifyOrder")),
        proto_format=bool(node.get("testPullWithProtoFormat")),
    )


def _record(data: Mapping[str, Any]) -> Record:
    window = data.get("window")
    return Record(
        topic=data["topic"],
        key=data.get("key"),
        value=data["value"],
        timestamp=None if data.get("timestamp") is None else int(data["timestamp"]),
        window=window and Window(int(window["start"]), int(window["end"]), str(window["type"]).upper()),
        headers=tuple((header["KEY"], _bytes(header.get("VALUE"))) for header in data.get("headers") or ()),
    )


def _bytes(text: str | None) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text)
    except binascii.Error as error:
        raise ValueError(f"the header {text!r} is not base64") from error


def _topic(data: Mapping[str, Any]) -> Topic:
    return Topic(
        name=data["name"],
        partitions=int(data.get("partitions") or 1),
        key_format=data.get("keyFormat"),
        value_format=data.get("valueFormat"),
        key_schema=data.get("keySchema"),
        value_schema=data.get("valueSchema"),
        key_schema_id=data.get("keySchemaId"),
        value_schema_id=data.get("valueSchemaId"),
        key_references=_references(data.get("keySchemaReferences")),
        value_references=_references(data.get("valueSchemaReferences")),
    )


def _references(data: list[dict[str, Any]] | None) -> tuple[tuple[str, Any], ...]:
    return tuple((reference["name"], reference["schema"]) for reference in data or ())


def _expected_error(data: Mapping[str, Any] | None) -> ExpectedError | None:
    if data is None:
        return None
    status = data.get("status")
    return ExpectedError(str(data.get("type", "")).rpartition(".")[2], data.get("message") or "", status)
