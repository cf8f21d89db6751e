"""Runs the cases of SQL test files: statements take effect one by one, and ASSERT reads what was written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from millstream.errors import MillstreamError, SqlError, SqlSyntaxError
from millstream.sql.binder.expressions import resolve_type
from millstream.sql.catalog.sources import DataSource
from millstream.sql.syntax import parse_statement, split_statements
from millstream.sql.syntax.preparation import PreparationError
from millstream.sql.syntax.tree import (
    AssertSource,
    AssertValues,
    Define,
    Element,
    Position,
    RunScript,
    Statement,
    Undefine,
)
from millstream.sql.testing.checks import CheckError
from millstream.sql.testing.engine import Engine, UnsupportedError
from millstream.sql.testing.matching import message_matches
from millstream.sql.testing.sql_files import SqlCase

_TOLERANCE = 1e-6
_MOST_SCRIPTS = 100


def run_sql(case: SqlCase, engine: Engine) -> bool | None:
    """Runs a case; returns whether the message of the expected error matches, None without one."""
    runner = _Runner(engine, case.folder)
    try:
        runner.run_text(case.text, case.line)
    except UnsupportedError:
        raise
    except (CheckError, MillstreamError) as error:
        if not case.negative:
            raise
        syntax = isinstance(error, SqlSyntaxError | PreparationError)
        if case.expected_error == "ParseFailedException" and not syntax and isinstance(error, SqlError):
            raise CheckError(f"the error is not a syntax error: {error}") from error
        return message_matches(case.expected_message, error)
    if case.negative:
        raise CheckError(f"no statement fails, expected {case.expected_error}: {case.expected_message}")
    return None


class _Runner:
    """Runs statements, and counts the records of each topic that ASSERT has read."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self._folder = folder
        self._scripts = 0
        self.variables: dict[str, str] = {}
        self._read: Counter[str] = Counter()

    def run_text(self, text: str, line: int = 1) -> None:
        """Runs statements; the first line of their text is ``line`` in its file."""
        for piece, (row, column) in split_statements(text):
            place = Position(row + line - 1, column)
            self._run(parse_statement(piece, self.variables, at=place, test_statements=True))

    def _run(self, statement: Statement) -> None:
        match statement:
            case AssertValues():
                self._check_values(statement)
            case AssertSource():
                self._check_source(statement)
            case RunScript():
                self._run_script(statement)
            case Define():
                self.variables[statement.name.upper()] = statement.value
            case Undefine():
                self.variables.pop(statement.name.upper(), None)
            case _:
                self.engine.execute(statement, live=True)

    def _run_script(self, statement: RunScript) -> None:
        self._scripts += 1
        if self._scripts > _MOST_SCRIPTS:
            raise CheckError(f"more than {_MOST_SCRIPTS} scripts run: does a script run itself?")
        path = self._folder / statement.path
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CheckError(f"Failed to read script {path}: {error}") from error
        self.run_text(text)

    def _source(self, name: str) -> DataSource:
        source = self.engine.sources.get(name)
        if source is None:
            raise CheckError(f"{name} does not exist")
        return source

    def _check_values(self, statement: AssertValues) -> None:
        source = self._source(statement.source)
        records = self.engine.records(source.topic)
        number = self._read[source.topic]
        if number >= len(records):
            raise CheckError(f"Expected another record, but {source.topic} has only {len(records)}")
        self._read[source.topic] += 1
        record = records[number]
        if (record.value is None) != statement.tombstone:
            found = "a tombstone" if record.value is None else "a row"
            raise CheckError(
                f"Expected record does not match actual: expected {'a tombstone' if statement.tombstone else 'a row'}, "
                f"found {found}"
            )
        columns = statement.columns or _all_columns(source, only_keys=statement.tombstone)
        expected = self.engine.values(source, columns, statement.values)
        actual = self.engine.row(source, record) or {}
        for column in columns:
            if not _equal(expected.get(column), actual.get(column)):
                raise CheckError(
                    f"Expected record does not match actual: {source.topic}, record {number + 1}: {column} is "
                    f"{actual.get(column)!r}, expected {expected.get(column)!r}"
                )

    def _check_source(self, statement: AssertSource) -> None:
        source = self._source(statement.name)
        if source.kind != statement.kind:
            raise CheckError(f"Expected type does not match actual for source {source.name}. It is a {source.kind}")
        if not _same_elements(source, statement.elements):
            raise CheckError(
                f"Expected schema does not match actual for source {source.name}. It is {source.schema_text()}"
            )
        for name, literal in statement.properties.items:
            actual = _property(source, name)
            if str(literal.value).upper() != str(actual).upper():
                label = name.lower().replace("_", " ")
                raise CheckError(
                    f"Expected {label} does not match actual for source {source.name}. It is {actual}, "
                    f"expected {literal.value}"
                )


def _all_columns(source: DataSource, *, only_keys: bool) -> tuple[str, ...]:
    return tuple(column.name for column in (source.key if only_keys else (*source.key, *source.value)))


def _equal(expected: Any, actual: Any) -> bool:
    if isinstance(expected, float) and isinstance(actual, float):
        return expected == actual or abs(expected - actual) < _TOLERANCE
    return bool(expected == actual)


def _same_elements(source: DataSource, elements: tuple[Element, ...]) -> bool:
    given: list[tuple[str, Any, str]] = []
    for element in elements:
        role = {"PRIMARY KEY": "KEY"}.get(element.role, element.role)
        given.append((element.name, resolve_type(element.type, {}), role))
    actual = [(column.name, column.type, "KEY") for column in source.key]
    actual += [(column.name, column.type, "VALUE") for column in source.value]
    actual += [
        (column.name, column.type, "HEADERS" if column.header is None else "HEADER") for column in source.headers
    ]
    return given == actual


def _property(source: DataSource, name: str) -> Any:
    window = source.window
    known: dict[str, Any] = {
        "KAFKA_TOPIC": source.topic,
        "KEY_FORMAT": source.key_format.name,
        "VALUE_FORMAT": source.value_format.name,
        "FORMAT": source.value_format.name,
        "TIMESTAMP": None if source.timestamp is None else source.timestamp.column,
        "TIMESTAMP_FORMAT": None if source.timestamp is None else source.timestamp.pattern,
        "WINDOW_TYPE": None if window is None else window.kind,
        "WINDOW_SIZE": None if window is None else window.size,
        "PARTITIONS": source.partitions or 1,
        "WRAP_SINGLE_VALUE": source.value_format.wrap,
    }
    if name not in known:
        raise UnsupportedError(f"ASSERT cannot compare {name}")
    return known[name]
