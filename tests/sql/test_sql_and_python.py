"""A query in SQL and the same topology in Python give the same records: keys, values, timestamps and their order."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from millstream import (
    App,
    Record,
    Stream,
    Table,
    TestDriver,
    agg,
    avg,
    col,
    collect,
    count,
    functions as f,
    hopping,
    join_window,
    left,
    max_,
    min_,
    right,
    session,
    struct,
    sum_,
    timestamp,
    tumbling,
    value,
    when,
)
from millstream.plan.topics import topics_read

SOURCES = """
    CREATE STREAM orders (id STRING KEY, customer STRING, item STRING, amount INT, price DOUBLE, tags ARRAY<STRING>,
        home STRUCT<town STRING, zip INT>) WITH (kafka_topic='orders', value_format='JSON');
    CREATE STREAM payments (id STRING KEY, customer STRING, paid DOUBLE)
        WITH (kafka_topic='payments', value_format='JSON');
    CREATE TABLE customers (id STRING PRIMARY KEY, name STRING, city STRING, level INT)
        WITH (kafka_topic='customers', value_format='JSON');
    CREATE TABLE profiles (id STRING PRIMARY KEY, mail STRING) WITH (kafka_topic='profiles', value_format='JSON');
    CREATE TABLE cities (id STRING PRIMARY KEY, country STRING) WITH (kafka_topic='cities', value_format='JSON');
"""
DAY = 24 * 60 * 60 * 1000
Row = dict[str, Any]
Input = tuple[str, Record[str, Any]]


class Sources:
    """The sources of `SOURCES` in a Python application."""

    def __init__(self, app: App) -> None:
        self.app = app

    @property
    def orders(self) -> Stream[str, Any]:
        return self.app.stream("orders", key=str)

    @property
    def payments(self) -> Stream[str, Any]:
        return self.app.stream("payments", key=str)

    @property
    def customers(self) -> Table[str, Any]:
        return self.app.table("customers", key=str)

    @property
    def profiles(self) -> Table[str, Any]:
        return self.app.table("profiles", key=str)

    @property
    def cities(self) -> Table[str, Any]:
        return self.app.table("cities", key=str)


class Query(NamedTuple):
    """A query in SQL, and the function that adds the same topology in Python."""

    sql: str
    python: Callable[[Sources], Stream[Any, Any] | Table[Any, Any]]


def of_row(function: Callable[[Row], Any]) -> Callable[[Row | None], Any]:
    """A function of a row; a null value stays null."""
    return lambda row: None if row is None else function(row)


def is_row(row: Row | None) -> bool:
    return row is not None


QUERIES: dict[str, Query] = {}


def query(name: str, sql: str) -> Callable[[Callable[[Sources], Any]], None]:
    """Adds a query; the decorated function is its form in Python."""

    def add(python: Callable[[Sources], Any]) -> None:
        assert name not in QUERIES
        QUERIES[name] = Query(sql, python)

    return add


# ----- one record at a time ------------------------------------------------------------------------------------------


@query("projection", "CREATE STREAM out AS SELECT id, amount, customer FROM orders;")
def _(of: Sources) -> Any:
    return of.orders.map_values(of_row(lambda row: {"AMOUNT": row["amount"], "CUSTOMER": row["customer"]}))


@query("filter", "CREATE STREAM out AS SELECT id, item, amount AS n FROM orders WHERE amount > 3 AND item <> 'pen';")
def _(of: Sources) -> Any:
    kept = of.orders.filter((col("amount") > 3) & (col("item") != "pen"))
    return kept.map_values(struct(ITEM=col("item"), N=col("amount")))


@query("two-valued logic", "CREATE STREAM out AS SELECT id, amount FROM orders WHERE NOT (amount > 3) OR item IS NULL;")
def _(of: Sources) -> Any:
    kept = of.orders.filter(
        lambda row: row is not None and (row["amount"] is None or row["amount"] <= 3 or row["item"] is None)
    )
    return kept.map_values(lambda row: {"AMOUNT": row["amount"]})


@query(
    "arithmetic",
    """CREATE STREAM out AS SELECT id, amount + 1, amount * price AS total, amount / 2 AS half, -amount % 3 AS rest,
           CAST(price AS INT) AS whole FROM orders WHERE amount IS NOT NULL;""",
)
def _(of: Sources) -> Any:
    def computed(row: Row) -> Row:
        n, price = row["amount"], row["price"]
        return {
            "KSQL_COL_0": n + 1,
            "TOTAL": None if price is None else n * price,
            "HALF": int(n / 2),
            "REST": -(n % 3),
            "WHOLE": None if price is None else int(price),
        }

    return of.orders.filter(lambda row: row is not None and row["amount"] is not None).map_values(computed)


@query(
    "functions of text",
    """CREATE STREAM out AS SELECT id, UCASE(item) AS upper, SUBSTRING(item, 1, 2) AS start, LEN(item) AS n,
           CONCAT(customer, '/', item) AS path FROM orders WHERE item LIKE '%e%';""",
)
def _(of: Sources) -> Any:
    kept = of.orders.filter(col("item").like("%e%"))
    item = col("item")
    return kept.map_values(
        struct(
            UPPER=f.upper(item),
            START=f.substring(item, 1, 2),
            N=f.length(item),
            PATH=f.concat(f.coalesce(col("customer"), ""), "/", item),
        )
    )


@query(
    "choice",
    """CREATE STREAM out AS SELECT id,
           CASE WHEN amount >= 5 THEN 'large' WHEN amount >= 2 THEN 'medium' ELSE 'small' END AS kind,
           COALESCE(item, 'none') AS item, IFNULL(amount, 0) BETWEEN 2 AND 4 AS mid FROM orders;""",
)
def _(of: Sources) -> Any:
    size = when(col("amount") >= 5, "large").when(col("amount") >= 2, "medium").otherwise("small")
    mid = col("amount").fill_null(0).between(2, 4)
    return of.orders.map_values(
        when(value().is_null(), None).otherwise(struct(KIND=size, ITEM=col("item").fill_null("none"), MID=mid))
    )


@query(
    "structs and arrays",
    """CREATE STREAM out AS SELECT id, home->town, home->zip AS zip, tags[1] AS first, tags[-1] AS last,
           ARRAY_LENGTH(tags) AS n, STRUCT(a := amount, t := tags) AS both FROM orders;""",
)
def _(of: Sources) -> Any:
    def parts(row: Row) -> Row:
        home, tags = row["home"] or {"town": None, "zip": None}, row["tags"]
        return {
            "TOWN": home["town"],
            "ZIP": home["zip"],
            "FIRST": tags[0] if tags else None,
            "LAST": tags[-1] if tags else None,
            "N": None if tags is None else len(tags),
            "BOTH": {"A": row["amount"], "T": tags},
        }

    return of.orders.map_values(of_row(parts))


@query(
    "lambdas",
    """CREATE STREAM out AS SELECT id, TRANSFORM(tags, t => UCASE(t)) AS upper, FILTER(tags, t => t <> 'red') AS others,
           REDUCE(tags, amount, (sum, t) => sum + LEN(t)) AS length FROM orders WHERE amount IS NOT NULL;""",
)
def _(of: Sources) -> Any:
    def applied(row: Row) -> Row:
        tags = row["tags"]
        return {
            "UPPER": None if tags is None else [tag.upper() for tag in tags],
            "OTHERS": None if tags is None else [tag for tag in tags if tag != "red"],
            "LENGTH": row["amount"] + sum(map(len, tags or [])),
        }

    return of.orders.filter(lambda row: row is not None and row["amount"] is not None).map_values(applied)


@query("explode", "CREATE STREAM out AS SELECT id, EXPLODE(tags) AS tag, amount FROM orders;")
def _(of: Sources) -> Any:
    return of.orders.flat_map_values(
        lambda row: [{"TAG": tag, "AMOUNT": row["amount"]} for tag in (row["tags"] or ())] if row is not None else []
    )


@query("time of a record", "CREATE STREAM out AS SELECT id, ROWTIME AS t, item FROM orders WHERE ROWTIME > 9000;")
def _(of: Sources) -> Any:
    later = of.orders.filter(is_row).filter(timestamp() > 9000)
    return later.map_values(struct(T=timestamp(), ITEM=col("item")))


@query("key in the value", "CREATE STREAM out AS SELECT id, AS_VALUE(id) AS copy, CONCAT(id, '!') AS loud FROM orders;")
def _(of: Sources) -> Any:
    return of.orders.map_values(lambda key, row: None if row is None else {"COPY": key, "LOUD": f"{key}!"})


@query("partition by a column", "CREATE STREAM out AS SELECT * FROM orders PARTITION BY item;")
def _(of: Sources) -> Any:
    return of.orders.map(
        lambda key, row: (
            (None, None)
            if row is None
            else (
                row["item"],
                {
                    "CUSTOMER": row["customer"],
                    "AMOUNT": row["amount"],
                    "PRICE": row["price"],
                    "TAGS": row["tags"],
                    "HOME": row["home"] and {"TOWN": row["home"]["town"], "ZIP": row["home"]["zip"]},
                    "ID": key,
                },
            )
        ),
        key=str,
    )


@query(
    "partition by an expression",
    "CREATE STREAM out AS SELECT amount * 2 AS twice, item FROM orders WHERE amount > 0 PARTITION BY amount * 2;",
)
def _(of: Sources) -> Any:
    kept = of.orders.filter(col("amount") > 0).select_key(col("amount") * 2, key="int")
    return kept.map_values(struct(ITEM=col("item")))


@query(
    "insert into",
    """CREATE STREAM out AS SELECT id, item AS what FROM orders WHERE amount > 5;
       INSERT INTO out SELECT id, customer AS what FROM payments WHERE paid < 20;""",
)
def _(of: Sources) -> Any:
    of.payments.filter(col("paid") < 20).map_values(struct(WHAT=col("customer"))).to("OUT")
    return of.orders.filter(col("amount") > 5).map_values(struct(WHAT=col("item")))


# ----- groups --------------------------------------------------------------------------------------------------------


@query(
    "group by the key",
    "CREATE TABLE out AS SELECT id, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY id;",
)
def _(of: Sources) -> Any:
    grouped = of.orders.filter(is_row).group_by_key()
    return grouped.aggregate(N=count(), TOTAL=sum_(col("amount").fill_null(0)))


@query("count by another column", "CREATE TABLE out AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item;")
def _(of: Sources) -> Any:
    return of.orders.filter(is_row).group_by(col("item"), key=str).count().map_values(struct(N=value()))


@query(
    "aggregates by another column",
    """CREATE TABLE out AS SELECT customer, MIN(amount) AS low, MAX(amount) AS high, AVG(amount) AS mean,
           COUNT(item) AS items, COLLECT_LIST(item) AS all_items FROM orders GROUP BY customer;""",
)
def _(of: Sources) -> Any:
    results = of.orders.filter(is_row).group_by(col("customer"), key=str)
    table = results.aggregate(
        LOW=min_(col("amount")),
        HIGH=max_(col("amount")),
        MEAN=avg(col("amount")),
        ITEMS=sum_(when(col("item").is_null(), 0).otherwise(1)),
        ALL_ITEMS=collect(struct(item=col("item"))),
    )
    return table.map_values(
        lambda row: {
            **row,
            "MEAN": row["MEAN"] or 0.0,
            "ALL_ITEMS": [entry["item"] for entry in row["ALL_ITEMS"]],
        }
    )


@query(
    "group by two columns",
    """CREATE TABLE out WITH (key_format='JSON') AS SELECT customer, item, COUNT(*) AS n FROM orders
           GROUP BY customer, item;""",
)
def _(of: Sources) -> Any:
    named = of.orders.filter(col("customer").is_not_null() & col("item").is_not_null())
    pairs = named.group_by(struct(CUSTOMER=col("customer"), ITEM=col("item")), key="json")
    return pairs.count().map_values(struct(N=value()))


@query(
    "having",
    "CREATE TABLE out AS SELECT item, SUM(amount) AS total FROM orders GROUP BY item HAVING SUM(amount) % 3 = 0;",
)
def _(of: Sources) -> Any:
    sums = (
        of.orders.filter(is_row).group_by(col("item"), key=str).aggregate(lambda: 0, agg() + col("amount").fill_null(0))
    )
    return sums.filter(value() % 3 == 0).map_values(struct(TOTAL=value()))


@query(
    "group a table",
    "CREATE TABLE out AS SELECT city, COUNT(*) AS n, SUM(level) AS levels FROM customers GROUP BY city;",
)
def _(of: Sources) -> Any:
    grouped = of.customers.group_by(lambda key, row: (row["city"], row["level"]), key=str)
    return grouped.aggregate(
        lambda: {"N": 0, "LEVELS": 0},
        lambda level, row: {"N": row["N"] + 1, "LEVELS": row["LEVELS"] + level},
        lambda level, row: {"N": row["N"] - 1, "LEVELS": row["LEVELS"] - level},
    )


# ----- windows -------------------------------------------------------------------------------------------------------


@query(
    "tumbling windows",
    """CREATE TABLE out AS SELECT item, COUNT(*) AS n, WINDOWSTART AS ws, WINDOWEND AS we FROM orders
           WINDOW TUMBLING (SIZE 2 SECONDS, GRACE PERIOD 1 SECOND) GROUP BY item;""",
)
def _(of: Sources) -> Any:
    windows = of.orders.filter(is_row).group_by(col("item"), key=str).windowed_by(tumbling("2s", grace="1s"))
    return windows.count().map_values(lambda key, n: {"N": n, "WS": key.start, "WE": key.end})


@query(
    "hopping windows",
    """CREATE TABLE out AS SELECT id, SUM(amount) AS total FROM orders
           WINDOW HOPPING (SIZE 4 SECONDS, ADVANCE BY 1 SECOND) GROUP BY id;""",
)
def _(of: Sources) -> Any:
    windows = of.orders.filter(is_row).group_by_key().windowed_by(hopping("4s", "1s", grace=DAY - 4000))
    return windows.aggregate(TOTAL=sum_(col("amount").fill_null(0)))


@query(
    "sessions",
    """CREATE TABLE out AS SELECT customer, COUNT(*) AS n, MAX(price) AS top FROM orders
           WINDOW SESSION (1 SECOND, GRACE PERIOD 2 SECONDS) GROUP BY customer;""",
)
def _(of: Sources) -> Any:
    windows = of.orders.filter(is_row).group_by(col("customer"), key=str).windowed_by(session("1s", grace="2s"))
    return windows.aggregate(N=count(), TOP=max_(col("price")))


@query(
    "final results",
    """CREATE TABLE out AS SELECT item, COUNT(*) AS n, SUM(amount) AS total FROM orders
           WINDOW TUMBLING (SIZE 2 SECONDS, GRACE PERIOD 1 SECOND) GROUP BY item EMIT FINAL;""",
)
def _(of: Sources) -> Any:
    grouped = of.orders.filter(is_row).group_by(col("item"), key=str)
    windows = grouped.windowed_by(tumbling("2s", grace="1s"), emit="close")
    return windows.aggregate(N=count(), TOTAL=sum_(col("amount").fill_null(0)))


@query(
    "filter of windows",
    """CREATE TABLE out AS SELECT item, COUNT(*) AS n FROM orders WINDOW TUMBLING (SIZE 5 SECONDS)
           WHERE amount > 1 GROUP BY item HAVING COUNT(*) > 2;""",
)
def _(of: Sources) -> Any:
    grouped = of.orders.filter(col("amount") > 1).group_by(col("item"), key=str)
    return (
        grouped.windowed_by(tumbling("5s", grace=DAY - 5000)).count().filter(value() > 2).map_values(struct(N=value()))
    )


# ----- joins ---------------------------------------------------------------------------------------------------------


@query(
    "stream with stream",
    """CREATE STREAM out AS SELECT o.id, o.item, p.paid FROM orders o JOIN payments p
           WITHIN 2 SECONDS GRACE PERIOD 1 SECOND ON o.id = p.id;""",
)
def _(of: Sources) -> Any:
    window = join_window("2s", grace="1s")
    return of.orders.join(of.payments, struct(ITEM=left("item"), PAID=right("paid")), window)


@query(
    "stream with stream, left",
    """CREATE STREAM out AS SELECT o.id, o.item, p.paid FROM orders o LEFT JOIN payments p
           WITHIN (1 SECOND, 3 SECONDS) GRACE PERIOD 1 SECOND ON o.id = p.id;""",
)
def _(of: Sources) -> Any:
    window = join_window(before="1s", after="3s", grace="1s")
    return of.orders.left_join(of.payments, struct(ITEM=left("item"), PAID=right("paid")), window)


@query(
    "stream with stream, full",
    """CREATE STREAM out AS SELECT ROWKEY AS k, o.id AS o_id, p.id AS p_id, o.amount, p.paid FROM orders o
           FULL OUTER JOIN payments p WITHIN 1 SECOND GRACE PERIOD 1 SECOND ON o.id = p.id;""",
)
def _(of: Sources) -> Any:
    def joined(key: str, order: Row | None, payment: Row | None) -> Row:
        return {
            "O_ID": None if order is None else key,
            "P_ID": None if payment is None else key,
            "AMOUNT": order and order["amount"],
            "PAID": payment and payment["paid"],
        }

    return of.orders.outer_join(of.payments, joined, join_window("1s", grace="1s"))


@query(
    "stream with stream by other columns",
    """CREATE STREAM out AS SELECT o.customer, o.item, p.paid FROM orders o JOIN payments p
           WITHIN 1 SECOND GRACE PERIOD 1 SECOND ON o.customer = p.customer;""",
)
def _(of: Sources) -> Any:
    orders = of.orders.filter(is_row).select_key(col("customer"), key=str)
    payments = of.payments.filter(is_row).select_key(col("customer"), key=str)
    return orders.join(payments, struct(ITEM=left("item"), PAID=right("paid")), join_window("1s", grace="1s"))


@query(
    "stream with table",
    """CREATE STREAM out AS SELECT o.customer, c.name, o.amount * c.level AS points FROM orders o
           JOIN customers c ON o.customer = c.id;""",
)
def _(of: Sources) -> Any:
    orders = of.orders.filter(is_row).select_key(col("customer"), key=str)
    return orders.join(of.customers, struct(NAME=right("name"), POINTS=left("amount") * right("level")))


@query(
    "stream with table, left",
    """CREATE STREAM out AS SELECT o.customer AS who, c.id AS c_id, c.city, o.item FROM orders o
           LEFT JOIN customers c ON o.customer = c.id WHERE o.amount > 2;""",
)
def _(of: Sources) -> Any:
    def joined(key: str, order: Row, customer: Row | None) -> Row:
        found = customer is not None
        return {"C_ID": key if found else None, "CITY": customer["city"] if customer else None, "ITEM": order["item"]}

    orders = of.orders.filter(col("amount") > 2).select_key(col("customer"), key=str)
    return orders.left_join(of.customers, joined)


@query(
    "table with table",
    "CREATE TABLE out AS SELECT c.id, c.name, p.mail FROM customers c JOIN profiles p ON c.id = p.id;",
)
def _(of: Sources) -> Any:
    return of.customers.join(of.profiles, struct(NAME=left("name"), MAIL=right("mail")))


@query(
    "table with table, full",
    """CREATE TABLE out AS SELECT ROWKEY AS k, c.level, p.mail FROM customers c FULL OUTER JOIN profiles p
           ON c.id = p.id;""",
)
def _(of: Sources) -> Any:
    return of.customers.outer_join(of.profiles, struct(LEVEL=left("level"), MAIL=right("mail")))


@query(
    "foreign key",
    "CREATE TABLE out AS SELECT c.id, c.name, t.country FROM customers c JOIN cities t ON c.city = t.id;",
)
def _(of: Sources) -> Any:
    return of.customers.join(of.cities, struct(NAME=left("name"), COUNTRY=right("country")), on=col("city"))


@query(
    "foreign key, left",
    "CREATE TABLE out AS SELECT c.id, c.name, t.country FROM customers c LEFT JOIN cities t ON c.city = t.id;",
)
def _(of: Sources) -> Any:
    return of.customers.left_join(of.cities, struct(NAME=left("name"), COUNTRY=right("country")), on=col("city"))


@query(
    "three sources",
    """CREATE STREAM out AS SELECT o.customer, o.item, c.name, p.mail FROM orders o
           JOIN customers c ON o.customer = c.id LEFT JOIN profiles p ON o.customer = p.id;""",
)
def _(of: Sources) -> Any:
    orders = of.orders.filter(is_row).select_key(col("customer"), key=str)
    with_name = orders.join(of.customers, struct(ITEM=left("item"), NAME=right("name")))
    return with_name.left_join(of.profiles, struct(ITEM=left("ITEM"), NAME=left("NAME"), MAIL=right("mail")))


@query("filter of a table", "CREATE TABLE out AS SELECT id, UCASE(name) AS name FROM customers WHERE level > 1;")
def _(of: Sources) -> Any:
    customers = of.app.table("customers", key=str, store="customers")
    return customers.filter(col("level") > 1).map_values(struct(NAME=f.upper(col("name"))))


@query(
    "a query on a query",
    """CREATE STREAM large AS SELECT id, item, amount FROM orders WHERE amount > 2;
       CREATE TABLE out AS SELECT item, COUNT(*) AS n, SUM(amount) AS total FROM large GROUP BY item;""",
)
def _(of: Sources) -> Any:
    large = of.orders.filter(col("amount") > 2)
    return large.group_by(col("item"), key=str).aggregate(N=count(), TOTAL=sum_(col("amount")))


# ----- records and comparison ----------------------------------------------------------------------------------------


def inputs(seed: int, count: int = 250) -> Iterator[Input]:
    """Random records of all sources: nulls, changed and deleted rows, times out of order, keys without a match."""
    rng = random.Random(seed)

    def some(of: Any) -> Any:
        return None if rng.random() < 0.1 else of

    now = 0
    for _ in range(count):
        now += rng.randrange(200)
        time = max(0, now - (rng.randrange(4000) if rng.random() < 0.2 else 0))
        person, order = f"p{rng.randrange(5)}", f"o{rng.randrange(8)}"
        topic = rng.choice(["orders"] * 5 + ["payments"] * 3 + ["customers", "profiles", "cities"])
        row: Row | None
        if topic == "orders":
            row = {
                "customer": some(person),
                "item": some(rng.choice(["pen", "desk", "lamp", "eraser"])),
                "amount": some(rng.randrange(8)),
                "price": some(rng.randrange(1, 400) / 4),
                "tags": some([rng.choice(["red", "blue", "old"]) for _ in range(rng.randrange(4))]),
                "home": some({"town": rng.choice(["Bonn", "Kiel"]), "zip": rng.randrange(99)}),
            }
            name = order
        elif topic == "payments":
            row, name = {"customer": some(person), "paid": rng.randrange(50) / 2}, order
        elif topic == "customers":
            row = {"name": some(f"n{rng.randrange(9)}"), "city": f"c{rng.randrange(3)}", "level": rng.randrange(4)}
            name = person
        elif topic == "profiles":
            row, name = {"mail": f"m{rng.randrange(9)}"}, person
        else:
            row, name = {"country": f"l{rng.randrange(4)}"}, f"c{rng.randrange(4)}"
        yield topic, Record(name, row if rng.random() > 0.08 else None, time)


def outputs(app: App, records: list[Input]) -> list[tuple[bytes | None, Any, int]]:
    """The records of topic OUT."""
    read = set(topics_read(app.plan()))
    with TestDriver(app) as driver:
        for topic, record in records:
            if topic in read:
                data = None if record.value is None else json.dumps(record.value)
                driver.input(topic, key=str, value=str).pipe(record.key, data, timestamp=record.timestamp)
        written = driver.output("OUT", key=bytes, value=bytes).read_all()
    return [(r.key, None if r.value is None else json.loads(r.value), r.timestamp) for r in written]


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_gives_the_records_of_the_same_topology_in_python(name: str) -> None:
    records = list(inputs(7))
    in_sql, in_python = App("sql"), App("python")
    in_sql.sql(SOURCES + QUERIES[name].sql)
    result = QUERIES[name].python(Sources(in_python))
    (result.to_stream() if isinstance(result, Table) else result).to("OUT")

    expected = outputs(in_python, records)

    assert len(expected) > 5, "the case must not be empty"
    assert outputs(in_sql, records) == expected
