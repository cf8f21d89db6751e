"""The syntax tree: what the parser makes of the text, before any name or type is known.

Every node has the position of its first character. Names are as the dialect reads them: an unquoted identifier is in
upper case, a quoted one as it was written.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from millstream.core.frozen import Frozen
from millstream.sql.types import SqlType


class Position(NamedTuple):
    """A place in the text of a script; line and column count from 1."""

    line: int
    column: int


class Node(Frozen, kw_only=True):
    """A node of the tree."""

    at: Position


# ----- expressions ---------------------------------------------------------------------------------------------------


class Expression(Node, kw_only=True):
    """The base of all expressions."""


class Literal(Expression, kw_only=True):
    """``1`` (int), ``1.50`` (Decimal with its scale), ``1e3`` (float), text, TRUE, FALSE or NULL."""

    value: bool | int | float | Decimal | str | None


class ColumnRef(Expression, kw_only=True):
    """``name`` or ``source.name``."""

    name: str
    source: str | None = None


class Star(Expression, kw_only=True):
    """``*`` or ``source.*``; only a select item, or the argument of COUNT."""

    source: str | None = None


class StructStar(Expression, kw_only=True):
    """``struct->*``; only a select item."""

    base: Expression


class Dereference(Expression, kw_only=True):
    """``base->field``."""

    base: Expression
    field: str


class Subscript(Expression, kw_only=True):
    """``base[index]``."""

    base: Expression
    index: Expression


class Unary(Expression, kw_only=True):
    """``-x`` or ``+x``."""

    operator: str
    operand: Expression


class Arithmetic(Expression, kw_only=True):
    """``left operator right`` with ``+ - * / %``."""

    operator: str
    left: Expression
    right: Expression


class Concatenation(Expression, kw_only=True):
    """``left || right``."""

    left: Expression
    right: Expression


class Comparison(Expression, kw_only=True):
    """``left operator right`` with ``= <> < <= > >=``, ``IS DISTINCT FROM`` or ``IS NOT DISTINCT FROM``.

    The parser writes ``!=`` as ``<>``.
    """

    operator: str
    left: Expression
    right: Expression


class Logical(Expression, kw_only=True):
    """``left AND right`` or ``left OR right``."""

    operator: str
    left: Expression
    right: Expression


class Not(Expression, kw_only=True):
    """``NOT operand``."""

    operand: Expression


class IsNull(Expression, kw_only=True):
    """``operand IS [NOT] NULL``."""

    operand: Expression
    negated: bool = False


class Between(Expression, kw_only=True):
    """``operand [NOT] BETWEEN low AND high``."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False


class InList(Expression, kw_only=True):
    """``operand [NOT] IN (item, …)``."""

    operand: Expression
    items: tuple[Expression, ...]
    negated: bool = False


class Like(Expression, kw_only=True):
    """``operand [NOT] LIKE pattern [ESCAPE 'c']``."""

    operand: Expression
    pattern: Expression
    escape: str | None = None
    negated: bool = False


class Case(Expression, kw_only=True):
    """``CASE [operand] WHEN condition THEN result … [ELSE default] END``."""

    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression | None = None
    operand: Expression | None = None


class Cast(Expression, kw_only=True):
    """``CAST(operand AS type)``."""

    operand: Expression
    to: TypeRef


class Call(Expression, kw_only=True):
    """``NAME(argument, …)``; the name is in upper case."""

    name: str
    arguments: tuple[Expression, ...]


class Lambda(Expression, kw_only=True):
    """``x => body`` or ``(x, y) => body``."""

    parameters: tuple[str, ...]
    body: Expression


class IntervalUnit(Expression, kw_only=True):
    """``DAYS`` and the like, as the first argument of DATEADD and the like; singular, in upper case."""

    unit: str


class ArrayConstructor(Expression, kw_only=True):
    """``ARRAY[item, …]``."""

    items: tuple[Expression, ...]


class MapConstructor(Expression, kw_only=True):
    """``MAP(key := value, …)``."""

    entries: tuple[tuple[Expression, Expression], ...]


class StructConstructor(Expression, kw_only=True):
    """``STRUCT(name := value, …)``."""

    fields: tuple[tuple[str, Expression], ...]


# ----- types ---------------------------------------------------------------------------------------------------------


class TypeRef(Node, kw_only=True):
    """A type in the text, in which names of user types are not yet resolved."""


class KnownType(TypeRef, kw_only=True):
    """A type without names of user types."""

    type: SqlType


class NamedType(TypeRef, kw_only=True):
    """A name that CREATE TYPE may have defined."""

    name: str


class ArrayTypeRef(TypeRef, kw_only=True):
    """ARRAY of a type that contains a named type."""

    element: TypeRef


class MapTypeRef(TypeRef, kw_only=True):
    """MAP of types of which one contains a named type."""

    key: TypeRef
    value: TypeRef


class StructTypeRef(TypeRef, kw_only=True):
    """STRUCT of fields of which one contains a named type."""

    fields: tuple[tuple[str, TypeRef], ...]


# ----- queries -------------------------------------------------------------------------------------------------------


class SelectItem(Node, kw_only=True):
    """``expression [AS alias]``, ``*``, ``source.*`` or ``struct->*``."""

    expression: Expression
    alias: str | None = None


class Relation(Node, kw_only=True):
    """A source in FROM or JOIN, with its alias (its own name if none is given)."""

    source: str
    alias: str


class Within(Node, kw_only=True):
    """``WITHIN before`` or ``WITHIN (before, after)``, ``GRACE PERIOD grace``."""

    before: int
    after: int
    grace: int | None = None


class Join(Node, kw_only=True):
    """``kind JOIN relation [WITHIN …] ON condition``; kind is INNER, LEFT, RIGHT or FULL."""

    kind: str
    relation: Relation
    condition: Expression
    within: Within | None = None


class Window(Node, kw_only=True):
    """``WINDOW TUMBLING|HOPPING|SESSION (…)``, durations in milliseconds; ``size`` is the gap of a session window."""

    kind: str
    size: int
    advance: int | None = None
    retention: int | None = None
    grace: int | None = None


class Query(Node, kw_only=True):
    """``SELECT … [EMIT CHANGES|FINAL] [LIMIT n]``; ``emit`` is CHANGES, FINAL or None."""

    select: tuple[SelectItem, ...]
    relation: Relation
    joins: tuple[Join, ...] = ()
    window: Window | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    partition_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    emit: str | None = None
    limit: int | None = None


# ----- statements ----------------------------------------------------------------------------------------------------


class Statement(Node, kw_only=True):
    """The base of all statements; ``text`` is the statement as it was written, variables replaced."""

    text: str


class Element(Node, kw_only=True):
    """A column of CREATE: role is VALUE, KEY, PRIMARY KEY, HEADERS or HEADER (with ``header`` as its name)."""

    name: str
    type: TypeRef
    role: str = "VALUE"
    header: str | None = None


class Properties(Node, kw_only=True):
    """``WITH (name = literal, …)``; names in upper case."""

    items: tuple[tuple[str, Literal], ...]


class CreateSource(Statement, kw_only=True):
    """``CREATE [OR REPLACE] [SOURCE] kind [IF NOT EXISTS] name (elements) WITH (…)``; kind is STREAM or TABLE."""

    kind: str
    name: str
    elements: tuple[Element, ...]
    properties: Properties
    or_replace: bool = False
    if_not_exists: bool = False
    is_source: bool = False


class CreateAs(Statement, kw_only=True):
    """``CREATE [OR REPLACE] STREAM|TABLE [IF NOT EXISTS] name [WITH (…)] AS query``."""

    kind: str
    name: str
    properties: Properties
    query: Query
    or_replace: bool = False
    if_not_exists: bool = False


class InsertInto(Statement, kw_only=True):
    """``INSERT INTO target [WITH (QUERY_ID = …)] query``."""

    target: str
    properties: Properties
    query: Query


class InsertValues(Statement, kw_only=True):
    """``INSERT INTO target [(columns)] VALUES (…)``."""

    target: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


class Select(Statement, kw_only=True):
    """A transient query: push with EMIT, else pull."""

    query: Query


class CreateType(Statement, kw_only=True):
    """``CREATE TYPE [IF NOT EXISTS] name AS type``."""

    name: str
    type: TypeRef
    if_not_exists: bool = False


class DropType(Statement, kw_only=True):
    """``DROP TYPE [IF EXISTS] name``."""

    name: str
    if_exists: bool = False


class DropSource(Statement, kw_only=True):
    """``DROP STREAM|TABLE [IF EXISTS] name [DELETE TOPIC]``."""

    kind: str
    name: str
    if_exists: bool = False
    delete_topic: bool = False


class AlterSource(Statement, kw_only=True):
    """``ALTER STREAM|TABLE name ADD [COLUMN] column type, …``."""

    kind: str
    name: str
    columns: tuple[Element, ...]


class AlterSystem(Statement, kw_only=True):
    """``ALTER SYSTEM 'name' = 'value'``."""

    name: str
    value: str


class Terminate(Statement, kw_only=True):
    """``TERMINATE|PAUSE|RESUME ALL|query`` or ``TERMINATE CLUSTER``; ``query`` is None for ALL."""

    action: str
    query: str | None


class Show(Statement, kw_only=True):
    """``SHOW|LIST what [EXTENDED]``; ``what`` is in upper case: STREAMS, TABLES, ALL TOPICS, …."""

    what: str
    extended: bool = False


class Describe(Statement, kw_only=True):
    """``DESCRIBE name|FUNCTION name|STREAMS|TABLES [EXTENDED]``; what is SOURCE, FUNCTION, STREAMS or TABLES."""

    what: str
    name: str | None = None
    extended: bool = False


class Explain(Statement, kw_only=True):
    """``EXPLAIN query id`` or ``EXPLAIN statement``."""

    query_id: str | None = None
    statement: Statement | None = None


class Print(Statement, kw_only=True):
    """``PRINT topic [FROM BEGINNING] [INTERVAL n] [LIMIT n]``."""

    topic: str
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None


class SetProperty(Statement, kw_only=True):
    """``SET 'name' = 'value'``."""

    name: str
    value: str


class UnsetProperty(Statement, kw_only=True):
    """``UNSET 'name'``."""

    name: str


class Define(Statement, kw_only=True):
    """``DEFINE name = 'value'``."""

    name: str
    value: str


class Undefine(Statement, kw_only=True):
    """``UNDEFINE name``."""

    name: str


class RunScript(Statement, kw_only=True):
    """``RUN SCRIPT 'file'``."""

    path: str


class AssertTopic(Statement, kw_only=True):
    """``ASSERT [NOT EXISTS] TOPIC name [WITH (…)] [TIMEOUT n unit]``."""

    topic: str
    properties: Properties
    exists: bool = True
    timeout: int | None = None


class AssertSchema(Statement, kw_only=True):
    """``ASSERT [NOT EXISTS] SCHEMA [SUBJECT name] [ID n] [TIMEOUT n unit]``."""

    subject: str | None = None
    id: int | None = None
    exists: bool = True
    timeout: int | None = None


class AssertValues(Statement, kw_only=True):
    """``ASSERT VALUES source (columns) VALUES (…)``; tombstone: ``ASSERT NULL VALUES source (columns) KEY (…)``."""

    source: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]
    tombstone: bool = False


class AssertSource(Statement, kw_only=True):
    """``ASSERT STREAM|TABLE name (elements) WITH (…)``."""

    kind: str
    name: str
    elements: tuple[Element, ...]
    properties: Properties


class Connector(Statement, kw_only=True):
    """``CREATE SOURCE|SINK CONNECTOR``, ``DROP CONNECTOR`` or ``DESCRIBE CONNECTOR``: parsed, then refused."""

    action: str
    name: str
