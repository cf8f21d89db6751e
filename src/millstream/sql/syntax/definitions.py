"""The parser of statements that define, change and fill sources."""

from __future__ import annotations

from millstream.sql.syntax.queries import QueryParser
from millstream.sql.syntax.tokens import Kind, Token
from millstream.sql.syntax.tree import (
    AlterSource,
    AlterSystem,
    Connector,
    CreateAs,
    CreateSource,
    CreateType,
    DropSource,
    DropType,
    Element,
    Expression,
    InsertInto,
    InsertValues,
    Literal,
    Position,
    Properties,
    Statement,
)


class DefinitionParser(QueryParser):
    """Parses CREATE, DROP, ALTER and INSERT. The statements get their text later, in `StatementParser`."""

    # ----- parts -----------------------------------------------------------------------------------------------------

    def elements(self) -> tuple[Element, ...]:
        """Takes columns in parentheses, if they are next."""
        if not self.accept("("):
            return ()
        columns = self.columns()
        self.expect(")")
        return columns

    def columns(self) -> tuple[Element, ...]:
        """Takes columns."""
        return self.listed(self._element, "columns")

    def _element(self) -> Element:
        at = self.next.at
        name = self.identifier("the name (an identifier) of a column")
        type_ = self.type()
        role, header = "VALUE", None
        if self.accept("PRIMARY"):
            self.expect("KEY")
            role = "PRIMARY KEY"
        elif self.accept("KEY"):
            role = "KEY"
        elif self.accept("HEADERS"):
            role = "HEADERS"
        elif self.accept("HEADER"):
            self.expect("(")
            role, header = "HEADER", self.string("the name of a header in single quotes")
            self.expect(")")
        elif self.next.word not in {",", ")"} and self.next.kind is not Kind.END:
            self.fail((",", ")", "KEY", "PRIMARY KEY", "HEADERS", "HEADER"))
        return Element(at=at, name=name, type=type_, role=role, header=header)

    def properties(self) -> Properties:
        """Takes ``WITH (…)``, if it is next."""
        at = self.next.at
        if not self.accept("WITH"):
            return Properties(at=at, items=())
        self.expect("(")
        items = self.listed(self._property)
        self.expect(")")
        return Properties(at=at, items=items)

    def _property(self) -> tuple[str, Literal]:
        if self.next.kind is Kind.STRING:
            name = self.string()
        else:
            name = self.identifier("the name (an identifier) of a property")
        self.expect("=")
        value = self.literal()
        if value is None:
            self.fail((), "a literal")
        return name.upper(), value

    def _if_not_exists(self) -> bool:
        return self.accept("IF", "NOT", "EXISTS")

    # ----- CREATE ----------------------------------------------------------------------------------------------------

    def create(self) -> Statement:
        """Takes CREATE."""
        at = self.expect("CREATE").at
        or_replace = self.accept("OR", "REPLACE")
        if not or_replace:
            if self.accept("TYPE"):
                return self._create_type(at)
            if self.next.word in {"SINK", "SOURCE"} and self.ahead(1).word == "CONNECTOR":
                self.take()
                return self._create_connector(at)
        is_source = self.accept("SOURCE")
        if self.next.word not in {"STREAM", "TABLE"}:
            words = ("STREAM", "TABLE") if is_source or or_replace else ("STREAM", "TABLE", "SOURCE", "TYPE", "OR")
            self.fail(words)
        kind = self.take().word
        if_not_exists = self._if_not_exists()
        name = self.source_name("the name (an identifier) of a stream or table")
        elements = self.elements()
        properties = self.properties()
        if self.next.word == "AS" and not elements and not is_source:
            self.take()
            return CreateAs(
                at=at,
                text="",
                kind=kind,
                name=name,
                properties=properties,
                query=self.query(),
                or_replace=or_replace,
                if_not_exists=if_not_exists,
            )
        return CreateSource(
            at=at,
            text="",
            kind=kind,
            name=name,
            elements=elements,
            properties=properties,
            or_replace=or_replace,
            if_not_exists=if_not_exists,
            is_source=is_source,
        )

    def _create_type(self, at: Position) -> Statement:
        if_not_exists = self._if_not_exists()
        name = self.identifier("the name (an identifier) of a type")
        self.expect("AS")
        return CreateType(at=at, text="", name=name, type=self.type(), if_not_exists=if_not_exists)

    def _create_connector(self, at: Position) -> Statement:
        self.expect("CONNECTOR")
        self._if_not_exists()
        name = self.identifier("the name (an identifier) of a connector")
        if self.next.word != "WITH":
            self.fail(("WITH",))
        self.properties()
        return Connector(at=at, text="", action="CREATE", name=name)

    # ----- DROP, ALTER -----------------------------------------------------------------------------------------------

    def drop(self) -> Statement:
        """Takes DROP."""
        at = self.expect("DROP").at
        kind = self.one_of("STREAM", "TABLE", "TYPE", "CONNECTOR")
        if_exists = self.accept("IF", "EXISTS")
        if kind == "TYPE":
            return DropType(
                at=at, text="", name=self.identifier("the name (an identifier) of a type"), if_exists=if_exists
            )
        if kind == "CONNECTOR":
            return Connector(at=at, text="", action="DROP", name=self.identifier())
        name = self.source_name("the name (an identifier) of a stream or table")
        delete_topic = self.next.word == "DELETE" and bool(self.expect("DELETE", "TOPIC"))
        return DropSource(at=at, text="", kind=kind, name=name, if_exists=if_exists, delete_topic=delete_topic)

    def alter(self) -> Statement:
        """Takes ALTER."""
        at = self.expect("ALTER").at
        kind = self.one_of("STREAM", "TABLE", "SYSTEM")
        if kind == "SYSTEM":
            name = self.string()
            self.expect("=")
            return AlterSystem(at=at, text="", name=name, value=self.string())
        name = self.source_name("the name (an identifier) of a stream or table")
        return AlterSource(at=at, text="", kind=kind, name=name, columns=self.listed(self._added_column, "columns"))

    def _added_column(self) -> Element:
        self.expect("ADD")
        if self.next.word == "COLUMN" and self._names_column(self.ahead(1), self.ahead(2)):
            self.take()
        at = self.next.at
        name = self.identifier("the name (an identifier) of a column")
        return Element(at=at, name=name, type=self.type())

    def _names_column(self, name: Token, after: Token) -> bool:
        """Whether COLUMN is a keyword here, not a column of this name: then a name and a type follow it."""
        return self.is_identifier(name) and after.word not in {",", ";", "(", "<", "<>"} and after.kind is not Kind.END

    # ----- INSERT ----------------------------------------------------------------------------------------------------

    def insert(self) -> Statement:
        """Takes INSERT INTO."""
        at = self.expect("INSERT", "INTO").at
        target = self.source_name("the name (an identifier) of a stream or table")
        if self.next.word in {"WITH", "SELECT"}:
            properties = self.properties()
            return InsertInto(at=at, text="", target=target, properties=properties, query=self.query())
        columns = self.column_names()
        if self.next.word != "VALUES":
            self.fail(("VALUES",) if columns else ("(", "VALUES", "WITH", "SELECT"))
        self.take()
        return InsertValues(at=at, text="", target=target, columns=columns, values=self.values())

    def column_names(self) -> tuple[str, ...]:
        """Takes names of columns in parentheses, if they are next."""
        if not self.accept("("):
            return ()
        names = self.listed(lambda: self.identifier("the name (an identifier) of a column"), "columns")
        self.expect(")")
        return names

    def values(self) -> tuple[Expression, ...]:
        """Takes expressions in parentheses."""
        self.expect("(")
        values = () if self.next.word == ")" else self.listed(self.whole_value, "values")
        self.expect(")")
        return values
