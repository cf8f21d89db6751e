"""The parser of statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from millstream.core.frozen import replace
from millstream.errors import SqlSyntaxError, suggestion
from millstream.sql.syntax import variables as substitution
from millstream.sql.syntax.definitions import DefinitionParser
from millstream.sql.syntax.tokens import Kind
from millstream.sql.syntax.tree import (
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    Connector,
    Define,
    Describe,
    Explain,
    Position,
    Print,
    RunScript,
    Select,
    SetProperty,
    Show,
    Statement,
    Terminate,
    Undefine,
    UnsetProperty,
)

_SHOWN = {
    "PROPERTIES": False,
    "TOPICS": True,
    "STREAMS": True,
    "TABLES": True,
    "FUNCTIONS": False,
    "CONNECTORS": False,
    "TYPES": False,
    "VARIABLES": False,
    "QUERIES": True,
}
"""What SHOW lists, and whether EXTENDED is allowed."""


class StatementParser(DefinitionParser):
    """Parses statements. ``test_statements`` admits RUN SCRIPT and the ASSERTs of the test tool."""

    test_statements = False

    def statements(self) -> Iterator[Statement]:
        """Yields all statements. DEFINE and UNDEFINE change the variables of those after them."""
        while self.next.kind is not Kind.END:
            statement = self.statement()
            match statement:
                case Define():
                    self.variables[statement.name.upper()] = statement.value
                case Undefine():
                    self.variables.pop(statement.name.upper(), None)
            yield statement

    def statement(self) -> Statement:
        """Takes a statement and its semicolon."""
        first = self.index
        statement = self._statement()
        if self.next.word != ";":
            self.fail((*self._possible_next(statement), ";"))
        self.take()
        return replace(statement, text=self._text(first, self.index))

    def _possible_next(self, statement: Statement) -> tuple[str, ...]:
        """The words that are suggested for the word after a statement, which may be a misspelt clause."""
        if getattr(statement, "query", None) is not None and not isinstance(statement, Terminate):
            return ("WINDOW", "WHERE", "GROUP", "PARTITION", "HAVING", "EMIT", "LIMIT", "JOIN")
        return ("WITH", "AS") if type(statement).__name__.startswith("Create") else ()

    def _text(self, first: int, end: int) -> str:
        """The text of the tokens from one index to another, with variables replaced."""
        pieces, offset = [], self.tokens[first].start
        last = self.tokens[end - 1]
        stop = last.start + len(last.text)
        for token in self.tokens[first:end]:
            if token.kind is Kind.STRING and "${" in token.text:
                contents = substitution.substitute(token.text[1:-1].replace("''", "'"), self.variables)
                new = "'" + contents.replace("'", "''") + "'"
            elif token.kind is Kind.VARIABLE:
                new = self.variables.get(token.text[2:-1].upper(), token.text)
            else:
                continue
            pieces += [self.text[offset : token.start], new]
            offset = token.start + len(token.text)
        return "".join([*pieces, self.text[offset:stop]])

    def _statement(self) -> Statement:
        word = self.next.word
        parse = _STARTS.get(word)
        if word == "RUN" and not self.test_statements:
            raise SqlSyntaxError(
                "Unknown statement 'RUN'",
                at=self.next.at,
                hint="only the shell runs scripts; an application has one script, or calls app.sql again",
            )
        if parse is None:
            if self.next.kind in {Kind.END, Kind.OPERATOR}:
                self.fail((), "a statement")
            hint = suggestion(word, _STARTS) if self.next.kind is Kind.WORD else None
            raise SqlSyntaxError(f"Unknown statement {self.next}", at=self.next.at, hint=hint)
        return parse(self)

    def _select(self) -> Statement:
        at = self.next.at
        return Select(at=at, text="", query=self.query())

    # ----- looking ---------------------------------------------------------------------------------------------------

    def _show(self) -> Statement:
        at = self.take().at
        if self.accept("ALL"):
            self.expect("TOPICS")
            return Show(at=at, text="", what="ALL TOPICS", extended=self.accept("EXTENDED"))
        if self.accept("CONNECTOR", "PLUGINS"):
            return Show(at=at, text="", what="CONNECTOR PLUGINS")
        if self.next.word in {"SOURCE", "SINK"}:
            return Show(at=at, text="", what=f"{self.take().word} {self.expect('CONNECTORS').word}")
        what = self.one_of(*_SHOWN)
        extended = _SHOWN[what] and self.accept("EXTENDED")
        return Show(at=at, text="", what=what, extended=extended)

    def _describe(self) -> Statement:
        at = self.expect("DESCRIBE").at
        alone = self.ahead(1).word in {";", "EXTENDED"}
        if self.accept("CONNECTOR"):
            return Connector(at=at, text="", action="DESCRIBE", name=self.identifier())
        if self.next.word == "FUNCTION" and not alone:
            self.take()
            name = self.identifier("the name (an identifier) of a function")
            return Describe(at=at, text="", what="FUNCTION", name=name)
        if self.next.word in {"STREAMS", "TABLES"}:
            what = self.take().word
            return Describe(at=at, text="", what=what, extended=self.accept("EXTENDED"))
        name = self.source_name("the name (an identifier) of a stream or table")
        return Describe(at=at, text="", what="SOURCE", name=name, extended=self.accept("EXTENDED"))

    def _explain(self) -> Statement:
        at = self.expect("EXPLAIN").at
        if self.is_identifier(self.next) and self.ahead(1).word == ";":
            return Explain(at=at, text="", query_id=self.identifier())
        if self.next.word not in _STARTS:
            self.fail((), "a statement or the identifier of a query")
        self.enter()  # EXPLAIN EXPLAIN …
        first = self.index
        statement = self._statement()
        self.depth -= 1
        return Explain(at=at, text="", statement=replace(statement, text=self._text(first, self.index)))

    def _print(self) -> Statement:
        at = self.expect("PRINT").at
        topic = self._resource_name("the name (an identifier or string) of a topic")
        from_beginning = self.next.word == "FROM" and bool(self.expect("FROM", "BEGINNING"))
        interval = None
        if self.next.word in {"INTERVAL", "SAMPLE"}:
            interval = self.number(self.take().word)
        return Print(at=at, text="", topic=topic, from_beginning=from_beginning, interval=interval, limit=self._limit())

    def _resource_name(self, what: str) -> str:
        return self.string() if self.next.kind is Kind.STRING else self.identifier(what, keep_case=True)

    # ----- queries, session ------------------------------------------------------------------------------------------

    def _terminate(self) -> Statement:
        token = self.take()
        query = None if self.accept("ALL") else self.identifier("ALL or the identifier of a query")
        return Terminate(at=token.at, text="", action=token.word, query=query)

    def _set(self) -> Statement:
        at = self.expect("SET").at
        name = self._setting("the name of a property in single quotes")
        self.expect("=")
        return SetProperty(at=at, text="", name=name, value=self._setting("a value in single quotes"))

    def _unset(self) -> Statement:
        at = self.expect("UNSET").at
        return UnsetProperty(at=at, text="", name=self._setting("the name of a property in single quotes"))

    def _setting(self, what: str) -> str:
        if self.next.kind is Kind.VARIABLE:
            token = self.next
            value = self.literal()
            if value is None or not isinstance(value.value, str):
                raise SqlSyntaxError(f"expected {what}, found {token}", at=token.at)
            return value.value
        return self.string(what)

    def _define(self) -> Statement:
        at = self.expect("DEFINE").at
        name = self._variable_name()
        self.expect("=")
        return Define(at=at, text="", name=name, value=self.string())

    def _undefine(self) -> Statement:
        at = self.expect("UNDEFINE").at
        return Undefine(at=at, text="", name=self._variable_name())

    def _variable_name(self) -> str:
        if self.next.kind is not Kind.WORD:  # keywords are allowed: ${…} leaves no doubt
            self.fail((), "the name of a variable")
        return self.take().word

    # ----- the test tool ---------------------------------------------------------------------------------------------

    def _run(self) -> Statement:
        at = self.expect("RUN", "SCRIPT").at
        return RunScript(at=at, text="", path=self.string())

    def _assert(self) -> Statement:
        at = self.expect("ASSERT").at
        exists = not self.accept("NOT", "EXISTS")
        if self.accept("TOPIC"):
            topic = self._resource_name("the name (an identifier or string) of a topic")
            properties = self.properties()
            return AssertTopic(
                at=at, text="", topic=topic, properties=properties, exists=exists, timeout=self._timeout()
            )
        if self.accept("SCHEMA"):
            return self._assert_schema(at, exists)
        words = ("NULL", "VALUES", "STREAM", "TABLE")
        if exists and not self.test_statements and self.next.word in words:
            raise SqlSyntaxError(
                f"expected TOPIC or SCHEMA, found {self.next}",
                at=self.next.at,
                hint="only test files compare rows and sources: millstream sql test",
            )
        if not exists or not self.test_statements or self.next.word not in words:
            self.fail(("TOPIC", "SCHEMA", *(words if exists and self.test_statements else ())))
        if self.next.word in {"STREAM", "TABLE"}:
            kind = self.take().word
            name = self.source_name("the name (an identifier) of a stream or table")
            elements = self.elements()
            return AssertSource(at=at, text="", kind=kind, name=name, elements=elements, properties=self.properties())
        tombstone = self.accept("NULL")
        self.expect("VALUES")
        source = self.source_name("the name (an identifier) of a stream or table")
        columns = self.column_names()
        self.expect("KEY" if tombstone else "VALUES")
        return AssertValues(at=at, text="", source=source, columns=columns, values=self.values(), tombstone=tombstone)

    def _assert_schema(self, at: Position, exists: bool) -> Statement:
        subject = None
        if self.accept("SUBJECT"):
            subject = self._resource_name("the name (an identifier or string) of a subject")
        id_ = self.number("the id of a schema") if self.accept("ID") else None
        return AssertSchema(at=at, text="", subject=subject, id=id_, exists=exists, timeout=self._timeout())

    def _timeout(self) -> int | None:
        return self.duration() if self.accept("TIMEOUT") else None


_STARTS: dict[str, Callable[[StatementParser], Statement]] = {
    "SELECT": StatementParser._select,
    "CREATE": StatementParser.create,
    "INSERT": StatementParser.insert,
    "DROP": StatementParser.drop,
    "ALTER": StatementParser.alter,
    "SHOW": StatementParser._show,
    "LIST": StatementParser._show,
    "DESCRIBE": StatementParser._describe,
    "EXPLAIN": StatementParser._explain,
    "PRINT": StatementParser._print,
    "TERMINATE": StatementParser._terminate,
    "PAUSE": StatementParser._terminate,
    "RESUME": StatementParser._terminate,
    "SET": StatementParser._set,
    "UNSET": StatementParser._unset,
    "DEFINE": StatementParser._define,
    "UNDEFINE": StatementParser._undefine,
    "RUN": StatementParser._run,
    "ASSERT": StatementParser._assert,
}
