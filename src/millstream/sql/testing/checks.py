"""The checks of a case after its queries ran: records of topics, and the catalog."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from millstream.registry.api import Schema
from millstream.sql.binder.expressions import resolve_type
from millstream.sql.catalog.sources import DataSource, FormatInfo
from millstream.sql.formats.declarations import format_of
from millstream.sql.syntax import parse_columns
from millstream.sql.testing.cases import Record
from millstream.sql.testing.matching import difference

if TYPE_CHECKING:
    from millstream.sql.testing.engine import Engine, StoredRecord

_INTERNAL = "_confluent-ksql-"


class CheckError(Exception):
    """A check did not hold."""


# ----- records -------------------------------------------------------------------------------------------------------


def check_outputs(
    engine: Engine, outputs: Sequence[Record], *, exact: bool, clock_is_free: bool, prefix_only: bool = False
) -> None:
    """Compares the records of each topic that occurs in the expected ones, in their order.

    Args:
        engine: The engine.
        outputs: The expected records.
        exact: Decimals must have the same scale.
        clock_is_free: A timestamp 0 is not compared: the records come from INSERT VALUES.
        prefix_only: A topic may have more records than expected.
    """
    for topic in dict.fromkeys(record.topic for record in outputs):
        expected = [record for record in outputs if record.topic == topic]
        actual = engine.records(topic)
        for number, (wanted, raw) in enumerate(zip(expected, actual, strict=False), 1):
            _check_record(engine, wanted, raw, f"{topic}, record {number}", exact, clock_is_free)
        if len(actual) < len(expected) or (len(actual) > len(expected) and not prefix_only):
            extra = actual[len(expected)] if len(actual) > len(expected) else None
            more = "" if extra is None else f"; the next one is {engine.decode(extra)}"
            raise CheckError(f"{topic} has {len(actual)} records, expected {len(expected)}{more}")


def _check_record(
    engine: Engine, wanted: Record, raw: StoredRecord, place: str, exact: bool, clock_is_free: bool
) -> None:
    decoded = engine.decode(raw)
    problems = [
        difference(wanted.key, decoded.key, exact=exact, path="key"),
        difference(wanted.value, decoded.value, exact=exact, path="value"),
    ]
    window = wanted.window
    if window is not None:
        actual = decoded.window
        if actual is None or (window.start, window.end, window.kind) != (actual.start, actual.end, actual.kind):
            problems.append(f"the window is {actual}, expected {window}")
    unchecked = wanted.timestamp is None or (wanted.timestamp == 0 and clock_is_free)
    if not unchecked and wanted.timestamp != raw.timestamp:
        problems.append(f"the timestamp is {raw.timestamp}, expected {wanted.timestamp}")
    if tuple(raw.headers) != wanted.headers:
        problems.append(f"the headers are {tuple(raw.headers)}, expected {wanted.headers}")
    found = [problem for problem in problems if problem is not None]
    if found:
        raise CheckError(f"{place}: {'; '.join(found)}")


# ----- catalog -------------------------------------------------------------------------------------------------------


def check_post(engine: Engine, post: Mapping[str, Any]) -> None:
    """Checks sources and topics after a case."""
    for expected in post.get("sources") or ():
        _check_source(engine, expected)
    topics = post.get("topics") or {}
    if topics.get("blacklist"):
        forbidden = re.compile(topics["blacklist"])
        for name in engine.internal_topics():
            if forbidden.search(name):
                raise CheckError(f"the topic {name} must not exist: {topics['blacklist']}")
    for expected in topics.get("topics") or ():
        if not expected["name"].startswith(_INTERNAL):
            _check_topic(engine, expected)


def _check_source(engine: Engine, expected: Mapping[str, Any]) -> None:
    source = engine.sources.get(expected["name"])
    if source is None:
        raise CheckError(f"there is no source {expected['name']}; there are {', '.join(engine.sources)}")
    problems = []
    if source.kind != str(expected["type"]).upper():
        problems.append(f"it is a {source.kind}")
    if expected.get("schema") is not None and not same_schema(source, expected["schema"]):
        problems.append(f"its schema is {source.schema_text()}, expected {expected['schema']}")
    if expected.get("keyFormat") is not None:
        problems += _key_format_problems(source, expected["keyFormat"])
    if expected.get("valueFormat") is not None and source.value_format.name != _format_name(expected["valueFormat"]):
        problems.append(f"its value format is {source.value_format.name}, expected {expected['valueFormat']}")
    for is_key, member in ((True, "keyFeatures"), (False, "valueFeatures")):
        features = _features(source, is_key=is_key)
        if expected.get(member) is not None and set(expected[member]) != features:
            problems.append(f"its {member} are {sorted(features)}, expected {expected[member]}")
    if expected.get("isSource") is not None and bool(expected["isSource"]) != source.read_only:
        problems.append(f"isSource is {source.read_only}")
    if problems:
        raise CheckError(f"{source.name}: {'; '.join(problems)}")


def same_schema(source: DataSource, text: str) -> bool:
    """Whether a source has the columns of a text, in the same order and with the same roles."""
    expected: dict[str, list[tuple[str, Any, str | None]]] = {"KEY": [], "VALUE": [], "HEADERS": []}
    for element in parse_columns(text):
        role = {"PRIMARY KEY": "KEY", "HEADER": "HEADERS"}.get(element.role, element.role)
        expected[role].append((element.name, resolve_type(element.type, {}), element.header))
    return expected == {
        "KEY": [(column.name, column.type, None) for column in source.key],
        "VALUE": [(column.name, column.type, None) for column in source.value],
        "HEADERS": [(column.name, column.type, column.header) for column in source.headers],
    }


def _format_name(expected: Any) -> str:
    return str(expected["format"] if isinstance(expected, Mapping) else expected).upper()


def _key_format_problems(source: DataSource, expected: Mapping[str, Any]) -> list[str]:
    problems = []
    if "format" in expected and source.key_format.name != _format_name(expected):
        problems.append(f"its key format is {source.key_format.name}, expected {expected['format']}")
    window = (None, None) if source.window is None else (source.window.kind, source.window.size)
    size = expected.get("windowSize")
    if window != (expected.get("windowType"), None if size is None else int(size)):
        problems.append(f"its window is {source.window}, expected {dict(expected)}")
    return problems


def _features(source: DataSource, *, is_key: bool) -> set[str]:
    """The serde features as ksqlDB names them: for a single column whose format can do both, how it is written."""
    columns = source.key if is_key else source.value
    info: FormatInfo = source.key_format if is_key else source.value_format
    format_ = format_of(info.name)
    if len(columns) != 1 or not (format_.can_wrap and format_.can_unwrap):
        return set()
    if is_key:
        return {"UNWRAP_SINGLES"}
    if info.wrap is None:
        return set()
    return {"WRAP_SINGLES" if info.wrap else "UNWRAP_SINGLES"}


def _check_topic(engine: Engine, expected: Mapping[str, Any]) -> None:
    name = expected["name"]
    topic = engine.topic(name)
    if topic is None:
        raise CheckError(f"there is no topic {name}")
    source = next((source for source in engine.sources.values() if source.topic == name), None)
    problems = [] if source is None else _format_problems(engine, source, expected)
    if expected.get("partitions") is not None and topic.partitions != expected["partitions"]:
        problems.append(f"it has {topic.partitions} partitions, expected {expected['partitions']}")
    if problems:
        raise CheckError(f"topic {name}: {'; '.join(problems)}")


def _format_problems(engine: Engine, source: DataSource, expected: Mapping[str, Any]) -> list[str]:
    """Compares the formats and schemas of a topic with what a case expects of keys and values."""
    problems = []
    for is_key, side in ((True, "key"), (False, "value")):
        wanted = expected.get(f"{side}Format")
        info = source.key_format if is_key else source.value_format
        if wanted is not None:
            properties = {key.lower(): str(value).lower() for key, value in (wanted.get("properties") or {}).items()}
            actual = (info.name, _properties(info), _features(source, is_key=is_key))
            if actual != (_format_name(wanted), properties, set(wanted.get("features") or ())):
                problems.append(f"its {side}Format is {actual}, expected {wanted}")
            window = (wanted.get("windowInfo") or {}).get("type")
            if is_key and window != (None if source.window is None else source.window.kind):
                problems.append(f"its window is {source.window}, expected {wanted.get('windowInfo')}")
        schema = expected.get(f"{side}Schema")
        registered = None if schema is None else engine.schema(source, is_key=is_key)
        if schema is not None and (registered is None or not same_schema_text(schema, registered)):
            problems.append(f"its {side}Schema is {registered and registered.text}, expected {schema}")
    return problems


def _properties(info: FormatInfo) -> dict[str, str]:
    """The properties of a format as ksqlDB lists them, in lower case."""
    properties = {name.lower(): str(value).lower() for name, value in info.properties}
    if info.name == "PROTOBUF":
        properties["unwrapprimitives"] = "true"
    if info.schema_id is not None:
        properties["schemaid"] = str(info.schema_id)
    return properties


def same_schema_text(expected: Any, actual: Schema) -> bool:
    """Whether a schema is the expected one: JSON as data, the text of Protobuf apart from spaces."""
    if actual.type == "PROTOBUF":
        return str(expected).split() == actual.text.split()
    wanted = json.loads(expected) if isinstance(expected, str) and expected[:1] in '{["' else expected
    return bool(wanted == json.loads(actual.text))
