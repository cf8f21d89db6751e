"""All statements, scripts, and variables."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.errors import SqlSyntaxError
from millstream.sql.syntax import parse_script, parse_statement, split_statements
from millstream.sql.syntax.text import type_text
from millstream.sql.syntax.tree import Define, Explain, InsertValues, Properties, Select, Statement, TypeRef


def plain(value: Any) -> Any:
    """A field of a statement without positions."""
    match value:
        case Properties():
            return {name: literal.value for name, literal in value.items}
        case TypeRef():
            return type_text(value)
        case tuple():
            return [getattr(item, "name", item) if not hasattr(item, "value") else item.value for item in value]
    return value


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        (
            "create or replace source stream if not exists s (k int key, v array<int>) with (kafka_topic='t', 'x'=-1)",
            "CreateSource",
            {
                "kind": "STREAM",
                "name": "S",
                "elements": ["K", "V"],
                "properties": {"KAFKA_TOPIC": "t", "X": -1},
                "or_replace": True,
                "if_not_exists": True,
                "is_source": True,
            },
        ),
        ("create table t", "CreateSource", {"kind": "TABLE", "elements": [], "properties": {}, "is_source": False}),
        ("create stream if (a int)", "CreateSource", {"name": "IF", "if_not_exists": False}),
        (
            "create or replace table `t-1` with (partitions=3) as select * from s",
            "CreateAs",
            {"kind": "TABLE", "name": "t-1", "properties": {"PARTITIONS": 3}, "or_replace": True},
        ),
        ("create stream if not exists t as select a from s emit changes", "CreateAs", {"if_not_exists": True}),
        ("insert into t select * from s", "InsertInto", {"target": "T", "properties": {}}),
        ("insert into t with (query_id='q') select * from s", "InsertInto", {"properties": {"QUERY_ID": "q"}}),
        ("insert into t (a, `b`) values (1, -2)", "InsertValues", {"columns": ["A", "b"], "values": [1, -2]}),
        ("insert into t values ()", "InsertValues", {"columns": [], "values": []}),
        (
            "create type if not exists a as struct<b c>",
            "CreateType",
            {"name": "A", "type": "STRUCT<`B` C>", "if_not_exists": True},
        ),
        ("drop type if exists a", "DropType", {"name": "A", "if_exists": True}),
        ("drop stream a", "DropSource", {"kind": "STREAM", "name": "A", "if_exists": False, "delete_topic": False}),
        ("drop table if exists a delete topic", "DropSource", {"if_exists": True, "delete_topic": True}),
        ("alter stream s add column a int, add b int", "AlterSource", {"kind": "STREAM", "columns": ["A", "B"]}),
        ("alter table t add column int, add column array<int>", "AlterSource", {"columns": ["COLUMN", "COLUMN"]}),
        ("alter system 'a' = 'b'", "AlterSystem", {"name": "a", "value": "b"}),
        ("terminate csas_x_1", "Terminate", {"action": "TERMINATE", "query": "CSAS_X_1"}),
        ("pause all", "Terminate", {"action": "PAUSE", "query": None}),
        ("resume `q`", "Terminate", {"action": "RESUME", "query": "q"}),
        ("show all topics extended", "Show", {"what": "ALL TOPICS", "extended": True}),
        ("list streams", "Show", {"what": "STREAMS", "extended": False}),
        ("show source connectors", "Show", {"what": "SOURCE CONNECTORS"}),
        ("show connector plugins", "Show", {"what": "CONNECTOR PLUGINS"}),
        *((f"show {what}", "Show", {"what": what.upper()}) for what in ("types", "variables", "functions", "queries")),
        ("describe s extended", "Describe", {"what": "SOURCE", "name": "S", "extended": True}),
        ("describe function abs", "Describe", {"what": "FUNCTION", "name": "ABS"}),
        ("describe function", "Describe", {"what": "SOURCE", "name": "FUNCTION"}),
        ("describe streams", "Describe", {"what": "STREAMS", "name": None}),
        ("describe tables extended", "Describe", {"what": "TABLES", "extended": True}),
        ("explain ctas_x_1", "Explain", {"query_id": "CTAS_X_1", "statement": None}),
        (
            "print My_topic from beginning interval 2 limit 3",
            "Print",
            {"topic": "My_topic", "from_beginning": True, "interval": 2, "limit": 3},
        ),
        ("print 'a.b' sample 5", "Print", {"topic": "a.b", "from_beginning": False, "interval": 5, "limit": None}),
        ("set 'a' = 'b'", "SetProperty", {"name": "a", "value": "b"}),
        ("unset 'a'", "UnsetProperty", {"name": "a"}),
        ("define Stream = 'b'", "Define", {"name": "STREAM", "value": "b"}),
        ("undefine x", "Undefine", {"name": "X"}),
        ("run script '/a.sql'", "RunScript", {"path": "/a.sql"}),
        (
            "assert not exists topic t with (partitions=1) timeout 5 seconds",
            "AssertTopic",
            {"topic": "t", "exists": False, "properties": {"PARTITIONS": 1}, "timeout": 5000},
        ),
        ("assert topic 'a.b'", "AssertTopic", {"topic": "a.b", "exists": True, "timeout": None}),
        ("assert schema subject x id 3", "AssertSchema", {"subject": "x", "id": 3, "exists": True}),
        ("assert schema timeout 1 minute", "AssertSchema", {"subject": None, "id": None, "timeout": 60_000}),
        ("assert values s (a, b) values (1, 2)", "AssertValues", {"columns": ["A", "B"], "tombstone": False}),
        ("assert null values s (a) key ('x')", "AssertValues", {"values": ["x"], "tombstone": True}),
        ("assert table t (a int primary key) with (format='json')", "AssertSource", {"kind": "TABLE", "name": "T"}),
        ("create sink connector if not exists c with ('a'='b')", "Connector", {"action": "CREATE", "name": "C"}),
        ("drop connector if exists c", "Connector", {"action": "DROP"}),
        ("describe connector c", "Connector", {"action": "DESCRIBE"}),
    ],
)
def test_statements(text: str, kind: str, fields: dict[str, Any]) -> None:
    statement = parse_statement(f"  {text} ;", test_statements=True)

    assert type(statement).__name__ == kind
    assert {field: plain(getattr(statement, field)) for field in fields} == fields
    assert statement.text == f"{text} ;"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "creat stream s",
        "create stream",
        "create view v as select a from s",
        "create stream s () with (a=1)",
        "create stream s (a int,)",
        "create stream s with ()",
        "create stream s with (a=b)",
        "create stream s with (a=1+1)",
        "create stream s (a int) as select * from t",
        "create source stream s as select * from t",
        "create stream s as",
        "create stream s with (a=1) (b int)",
        "create stream `a b` (c int)",
        "create or replace type a as int",
        "create type a int",
        "create source connector c",
        "insert t values (1)",
        "insert into t (a) select * from s",
        "insert into t () values (1)",
        "insert into t values 1",
        "insert into t values (1), (2)",
        "insert into t values (a = b)",
        "drop s",
        "drop stream s delete",
        "drop view v",
        "alter stream s",
        "alter stream s drop column a",
        "alter stream s add a int key",
        "alter system a = 'b'",
        "terminate",
        "show",
        "show everything",
        "show types extended",
        "show all streams",
        "describe",
        "explain",
        "explain 1",
        "print",
        "print t limit 1 from beginning",
        "set a = 'b'",
        "set 'a' = 1",
        "set 'a' 'b'",
        "unset",
        "define 'a' = 'b'",
        "define a = 1",
        "run script",
        "assert",
        "assert not exists stream s",
        "assert null values s (a) values (1)",
        "assert values s (a) key (1)",
        "select * from s extended",
        "delete from s",
        "update s set a = 1",
        "begin",
    ],
)
def test_refused_statements(text: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse_statement(f"{text};", test_statements=True)


@pytest.mark.parametrize("text", ["run script 'a';", "assert values s values (1);", "assert stream s;"])
def test_statements_of_the_test_tool_are_refused_elsewhere(text: str) -> None:
    parse_script(text, test_statements=True)
    with pytest.raises(SqlSyntaxError):
        parse_script(text)


def test_explain_holds_the_statement() -> None:
    explain = parse_statement("explain select * from s emit changes;")

    assert isinstance(explain, Explain)
    assert isinstance(explain.statement, Select)
    assert explain.statement.text == "select * from s emit changes"


def test_a_script_is_parsed_as_a_whole() -> None:
    script = "-- first\nshow streams; /* ; */\n  show tables;--@directive\n"

    assert [(s.text, s.at) for s in parse_script(script)] == [("show streams;", (2, 1)), ("show tables;", (3, 3))]
    assert list(split_statements(script)) == [("show streams;", (2, 1)), ("show tables;", (3, 3))]
    assert parse_script("") == []
    with pytest.raises(SqlSyntaxError, match="line 2, column 1: Unknown statement 'sho'"):
        parse_script("show streams;\nsho tables;")


def test_the_last_statement_needs_its_semicolon_too() -> None:
    with pytest.raises(SqlSyntaxError, match=r"expected .*';', found the end of the text"):
        parse_script("show streams; show tables")
    assert list(split_statements("show streams; show tables")) == [("show streams;", (1, 1)), ("show tables", (1, 15))]


def test_a_statement_keeps_its_place_in_the_script() -> None:
    [_first, (text, place)] = split_statements("show streams;\n  show\n tables x;")

    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(text, at=place)
    assert (caught.value.line, caught.value.column) == (3, 9)


# ----- variables -----------------------------------------------------------------------------------------------------


def values(statement: Statement) -> list[object]:
    assert isinstance(statement, InsertValues)
    return plain(statement.values)


def test_variables_in_identifiers_strings_and_literals() -> None:
    script = "insert into ${T} (${c}) values (${n}, ${neg}, ${flag}, '${text}!', ${text});"
    given = {"t": "`my-s`", "C": "col", "n": "1.50", "neg": "-3", "flag": "TRUE", "text": "'it''s'"}
    given["t"] = "my_s"

    [statement] = parse_script(script, given)

    assert isinstance(statement, InsertValues)
    assert (statement.target, statement.columns) == ("MY_S", ("COL",))
    assert [str(value) for value in values(statement)] == ["1.50", "-3", "True", "'it''s'!", "it's"]
    assert statement.text == "insert into my_s (col) values (1.50, -3, TRUE, '''it''''s''!', 'it''s');"


def test_define_and_undefine_change_the_variables_of_what_follows() -> None:
    define, first, _undefine, second = parse_script(
        "define a = 'x${b}'; insert into t values ('${A}'); undefine A; insert into t values ('${a} $${b}');",
        {"b": "1"},
    )

    assert isinstance(define, Define)
    assert define.value == "x1"
    assert values(first) == ["x1"]
    assert values(second) == ["${a} ${b}"]


@pytest.mark.parametrize(
    ("statement", "variables", "message"),
    [
        ("drop stream ${x}", {}, "the variable X is not defined"),
        ("drop stream ${x}", {"x": "a; drop stream b"}, "Illegal argument"),
        ("drop stream ${x}", {"x": ""}, "Illegal argument"),
        ("drop stream ${x}", {"x": "stream"}, None),
        ("insert into t values (${x})", {"x": "1); drop stream t; --"}, "Illegal argument|not an identifier"),
        ("insert into t values (${x})", {"x": "'a' || b"}, "Illegal argument|not an identifier"),
        ("set ${x} = 'a'", {"x": "3"}, "in single quotes"),
        ("create stream s with (a=${x})", {"x": "word"}, "Illegal argument"),
    ],
)
def test_variables_cannot_change_the_structure(statement: str, variables: dict[str, str], message: str | None) -> None:
    if message is None:
        assert parse_script(f"{statement};", variables)
        return
    with pytest.raises(SqlSyntaxError, match=message):
        parse_script(f"{statement};", variables)
