"""SQL in applications: queries beside operators in Python, functions of the user, and changes of a script."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from millstream import App, TestDriver
from millstream.cli.loading import load
from millstream.errors import SqlError
from millstream.plan.compare import compare
from millstream.registry.api import Schema, open_registry
from millstream.sql import udaf, udf, udtf
from millstream.sql.catalog.sources import Column
from millstream.sql.functions.user import unregister

ORDERS = "CREATE STREAM orders (customer STRING KEY, amount INT) WITH (kafka_topic='orders', value_format='JSON');"
TOWNS = "CREATE TABLE towns (customer STRING PRIMARY KEY, town STRING) WITH (kafka_topic='towns', value_format='JSON');"


def app_with(*scripts: str) -> App:
    app = App("shop", deserialization_exception_handler="continue")
    for script in scripts:
        app.sql(script)
    return app


def pipe(driver: TestDriver, topic: str, *rows: tuple[str, str | None]) -> None:
    records = driver.input(topic, key=str, value=str)
    for key, value in rows:
        records.pipe(key, value, timestamp=0)


def values(driver: TestDriver, topic: str) -> list[str]:
    return driver.output(topic, key=str, value=str).read_values()


# ----- SQL and Python ------------------------------------------------------------------------------------------------


def test_rows_of_a_query_are_dicts_with_the_columns_of_the_query() -> None:
    app = app_with(ORDERS)
    app.stream_from_sql("SELECT customer, amount * 2 AS twice FROM orders EMIT CHANGES").map_values(repr, value=str).to(
        "out", key=str
    )

    with TestDriver(app) as driver:
        pipe(driver, "orders", ("ann", '{"amount": 4}'))

        assert values(driver, "out") == ["{'CUSTOMER': 'ann', 'TWICE': 8}"]


def test_a_stream_in_python_joins_a_table_of_sql() -> None:
    app = app_with(ORDERS)
    totals = app.table_from_sql("SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer")
    visits = app.stream("visits", key=str, value=str)
    visits.join(totals, lambda page, row: f"{page} after {row['TOTAL']}", value=str).to("out", key=str)

    with TestDriver(app) as driver:
        pipe(driver, "orders", ("ann", '{"amount": 4}'), ("ann", '{"amount": 5}'))
        pipe(driver, "visits", ("ann", "home"), ("ben", "home"))

        assert values(driver, "out") == ["home after 9"]


def test_sql_reads_a_topic_that_python_operators_write() -> None:
    app = App("shop", deserialization_exception_handler="continue")
    app.stream("lines", key=str, value=str).map_values(lambda line: f'{{"AMOUNT": {len(line)}}}', value=str).to(
        "orders"
    )
    app.sql(ORDERS)
    app.sql("CREATE STREAM long AS SELECT * FROM orders WHERE amount > 3;")

    with TestDriver(app) as driver:
        pipe(driver, "lines", ("ann", "abc"), ("ann", "abcde"))

        assert values(driver, "LONG") == ['{"AMOUNT":5}']


def test_a_table_from_sql_deletes_a_row_that_having_does_not_let_pass_any_more() -> None:
    app = app_with(TOWNS)
    table = app.table_from_sql("SELECT town, COUNT(*) AS n FROM towns GROUP BY town HAVING COUNT(*) > 1")
    table.to_stream().map_values(lambda row: "gone" if row is None else f"{row['TOWN']} {row['N']}", value=str).to(
        "out"
    )

    with TestDriver(app) as driver:
        pipe(driver, "towns", ("ann", '{"town": "Rome"}'), ("ben", '{"town": "Rome"}'), ("ann", '{"town": "Oslo"}'))

        assert values(driver, "out") == ["Rome 2", "gone"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda app: app.table_from_sql("SELECT * FROM orders"), "the query makes a stream, not a table"),
        (lambda app: app.stream_from_sql("SELECT customer, COUNT(*) FROM orders GROUP BY customer"), "makes a table"),
        (lambda app: app.stream_from_sql("CREATE STREAM o AS SELECT * FROM orders"), "this is not a query"),
        (lambda app: app.stream_from_sql("SELECT * FROM orders LIMIT 3"), "no LIMIT"),
        (lambda app: app.stream_from_sql("SELECT nothing FROM orders"), "'NOTHING' cannot be resolved"),
    ],
)
def test_what_an_application_cannot_take_is_refused(call: object, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        call(app_with(ORDERS))  # type: ignore[operator]

    assert message in caught.value.message
    assert caught.value.line == 1


EFFECTS = [
    ("INSERT INTO orders VALUES ('ann', 1);", "INSERT INTO … VALUES is not a definition", "millstream produce"),
    ("DROP STREAM orders DELETE TOPIC;", "DROP STREAM is not a definition", "remove the CREATE statement"),
    ("DROP TYPE t;", "DROP TYPE is not a definition", "remove the CREATE TYPE"),
    ("ALTER STREAM orders ADD n INT;", "ALTER STREAM is not a definition", "add the column to the CREATE statement"),
    ("TERMINATE ALL;", "TERMINATE is not a definition", "remove the statement of the query"),
    ("PAUSE CSAS_O_1;", "PAUSE is not a definition", "remove the statement of the query"),
    ("SELECT * FROM orders EMIT CHANGES;", "SELECT is not a definition", "app.stream_from_sql or app.table_from_sql"),
    ("PRINT 'orders';", "PRINT is not a definition", "millstream consume"),
    ("ASSERT TOPIC 'orders';", "ASSERT TOPIC is not a definition", "millstream sql test"),
    ("ASSERT SCHEMA ID 3;", "ASSERT SCHEMA is not a definition", "millstream sql test"),
    ("ASSERT VALUES orders (amount) VALUES (1);", "expected TOPIC or SCHEMA, found 'VALUES'", "millstream sql test"),
    ("SHOW STREAMS;", "SHOW is not a definition", "millstream sql"),
    ("EXPLAIN SELECT * FROM orders;", "EXPLAIN is not a definition", "millstream describe"),
    ("CREATE SINK CONNECTOR c WITH ('a'='b');", "CREATE CONNECTOR is not a definition", "Kafka Connect"),
    ("RUN SCRIPT 'more.sql';", "Unknown statement 'RUN'", "app.sql again"),
]


@pytest.mark.parametrize(("statement", "message", "remedy"), EFFECTS, ids=[effect[0] for effect in EFFECTS])
def test_a_statement_with_an_effect_is_refused_with_its_line_and_what_to_do(
    statement: str, message: str, remedy: str
) -> None:
    with pytest.raises(SqlError) as caught:
        app_with(f"{ORDERS}\n\n{statement}")

    assert caught.value.message.startswith(message)
    assert caught.value.line == 3
    assert remedy in (caught.value.hint or "")


def test_a_query_cannot_be_replaced_inside_of_a_script() -> None:
    with pytest.raises(SqlError) as caught:
        app_with(ORDERS, "CREATE STREAM o AS SELECT * FROM orders; CREATE OR REPLACE STREAM o AS SELECT * FROM orders;")

    assert "O is already part of the application" in caught.value.message


# ----- functions of the user -----------------------------------------------------------------------------------------


def test_python_functions_are_functions_of_sql() -> None:
    @udf
    def shout(text: str) -> str:
        return text.upper() + "!"

    @udtf
    def letters(text: str) -> list[str]:
        return list(text)

    try:
        app = app_with(TOWNS.replace("TABLE", "STREAM").replace("PRIMARY KEY", "KEY"))
        app.sql("CREATE STREAM loud AS SELECT customer, SHOUT(town) AS loud, LETTERS(town) AS letter FROM towns;")
    finally:
        unregister("shout")
        unregister("letters")

    with TestDriver(app) as driver:
        pipe(driver, "towns", ("ann", '{"town": "Ur"}'))

        assert values(driver, "LOUD") == ['{"LOUD":"UR!","LETTER":"U"}', '{"LOUD":"UR!","LETTER":"r"}']


def test_an_aggregate_function_with_undo_aggregates_tables() -> None:
    @udaf
    class Characters:
        def initial(self) -> int:
            return 0

        def add(self, state: int, text: str) -> int:
            return state + len(text)

        def undo(self, state: int, text: str) -> int:
            return state - len(text)

        def merge(self, left: int, right: int) -> int:
            return left + right

    try:
        app = app_with(TOWNS, "CREATE TABLE sizes AS SELECT 1 AS one, CHARACTERS(town) AS chars FROM towns GROUP BY 1;")
    finally:
        unregister("characters")

    with TestDriver(app) as driver:
        pipe(driver, "towns", ("ann", '{"town": "Rome"}'), ("ben", '{"town": "Ur"}'), ("ann", '{"town": "Bo"}'))

        sizes = driver.output("SIZES", key=bytes, value=str).read_values()
        assert sizes[-1] == '{"CHARS":4}'


# ----- changes of a script -------------------------------------------------------------------------------------------

TOTALS = "CREATE TABLE totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;"


def changed(old: str, new: str) -> bool:
    """Returns whether an application with the new statement continues with the state of the old one."""
    return compare(app_with(ORDERS, old).topology().plan, app_with(ORDERS, new).topology().plan).compatible


def test_a_filter_a_projection_and_another_query_are_compatible_changes() -> None:
    assert changed(TOTALS, TOTALS.replace("FROM orders", "FROM orders WHERE amount > 5"))
    assert changed(TOTALS, TOTALS.replace("GROUP BY customer", "GROUP BY customer HAVING SUM(amount) > 5"))
    assert changed(TOTALS, TOTALS.replace("AS total", "AS total, 1 AS one"))
    assert changed(TOTALS, "CREATE TABLE first AS SELECT customer, COUNT(*) FROM orders GROUP BY customer;" + TOTALS)


def test_another_function_or_other_groups_cannot_continue_with_the_state() -> None:
    assert not changed(TOTALS, TOTALS.replace("SUM", "MAX"))
    assert not changed(TOTALS, TOTALS.replace("AS total", "AS total, COUNT(*) AS n"))
    by_size = "CREATE TABLE sizes AS SELECT amount % 2 AS k, SUM(amount) FROM orders GROUP BY amount % 2;"
    assert not changed(by_size, by_size.replace("%", "/"))


def test_a_changed_application_continues_with_the_groups_of_the_former_one() -> None:
    with TestDriver(app_with(ORDERS, TOTALS)) as first:
        pipe(first, "orders", ("ann", '{"amount": 4}'))
        second = first.upgrade(app_with(ORDERS, TOTALS.replace("FROM orders", "FROM orders WHERE amount > 1")))
    pipe(second, "orders", ("ann", '{"amount": 1}'), ("ann", '{"amount": 2}'))

    assert values(second, "TOTALS") == ['{"TOTAL":6}']


def test_a_comparison_names_the_changed_streams_tables_types_and_queries() -> None:
    big = ORDERS.replace("orders", "big")
    insert = "INSERT INTO big SELECT * FROM orders WHERE amount > {};"
    old = app_with("CREATE TYPE place AS STRUCT<x INT>;", ORDERS, big, TOTALS, insert.format(3) + insert.format(5))
    new = app_with(
        "CREATE TYPE place AS STRUCT<x BIGINT>;",
        ORDERS,
        big.replace("amount INT", "amount BIGINT"),
        f"/* the same, but for a filter */ {TOTALS.replace('FROM orders', 'FROM orders  WHERE amount > 5')}",
        insert.format(3),
        "CREATE STREAM copies AS SELECT * FROM orders;",
    )

    changes = {change.name: (change.status, change.reasons) for change in compare(old.plan(), new.plan()).definitions}

    assert changes == {
        "TYPE PLACE": ("changed", ("type",)),
        "STREAM ORDERS": ("kept", ()),
        "STREAM BIG": ("changed", ("columns",)),
        "TABLE TOTALS": ("changed", ("query",)),
        "INSERT INTO BIG": ("kept", ()),
        "INSERT INTO BIG (2)": ("removed", ()),
        "STREAM COPIES": ("added", ()),
    }


def test_the_layout_of_a_statement_is_no_change() -> None:
    spread = TOTALS.replace(" ", "\n  ").replace("FROM", "-- all of them\nFROM")

    changes = compare(app_with(ORDERS, TOTALS).plan(), app_with(ORDERS, spread).plan())

    assert {change.status for change in changes.definitions} == {"kept"}


def test_other_statements_do_not_rename_the_stores_of_a_query_that_inserts() -> None:
    big = ORDERS.replace("orders", "big")
    insert = (
        "INSERT INTO big SELECT o.customer AS customer, o.amount AS amount "
        "FROM orders o JOIN big b WITHIN 1 HOUR ON o.customer = b.customer;"
    )
    copies = "CREATE STREAM copies AS SELECT * FROM orders;"

    changes = compare(app_with(ORDERS, big, insert).plan(), app_with(ORDERS, big, copies, insert).plan())

    assert {change.status for change in changes.stores} == {"kept"}


def test_operators_have_the_line_of_their_statement() -> None:
    app = App("shop")
    app.sql(f"{ORDERS}\n\n{TOTALS}", source="shop.sql")

    assert {node.at for node in app.topology().plan.nodes} == {"shop.sql:3"}


# ----- schemas -------------------------------------------------------------------------------------------------------


def test_columns_come_from_the_schema_registry(tmp_path: Path) -> None:
    registry = open_registry({}, tmp_path)
    record = '{"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "int"}]}'
    registry.register("orders-value", Schema(record))
    registry.close()
    app = App("shop", state_dir=str(tmp_path))
    app.sql("CREATE STREAM orders (customer STRING KEY) WITH (kafka_topic='orders', value_format='AVRO');")
    app.sql("CREATE STREAM large WITH (value_format='JSON') AS SELECT * FROM orders WHERE amount > 1;")

    assert [column.name for column in app_columns(app)] == ["CUSTOMER", "AMOUNT"]


def app_columns(app: App) -> list[Column]:
    from millstream.sql.application import _sql_of

    source = _sql_of(app).session.catalog.sources["LARGE"]
    return [*source.key, *source.value]


def test_columns_without_a_registered_schema_are_refused_with_a_remedy(tmp_path: Path) -> None:
    app = App("shop", state_dir=str(tmp_path))

    with pytest.raises(SqlError) as caught:
        app.sql("CREATE STREAM orders (customer STRING KEY) WITH (kafka_topic='orders', value_format='AVRO');")

    assert "does not exist in the Schema Registry" in caught.value.message
    assert "name the columns" in str(caught.value.hint)


def test_a_script_calls_the_functions_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(
        "from millstream.sql import udf\n\n\n@udf\ndef doubled(number: int) -> int:\n    return 2 * number\n"
    )
    script = tmp_path / "shop.sql"
    script.write_text(f"{ORDERS}\nCREATE STREAM twice AS SELECT customer, DOUBLED(amount) AS amount FROM orders;\n")
    try:
        app = load(str(script), functions=[tmp_path / "functions.py"])
    finally:
        unregister("doubled")

    with TestDriver(app) as driver:
        pipe(driver, "orders", ("ann", '{"amount": 4}'))

        assert values(driver, "TWICE") == ['{"AMOUNT":8}']


def test_an_application_with_sql_is_freed_when_nothing_refers_to_it() -> None:
    app = App("freed")
    app.sql("CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON');")
    reference = weakref.ref(app)
    del app
    gc.collect()
    assert reference() is None
