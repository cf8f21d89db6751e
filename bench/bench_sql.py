"""Compares queries in SQL with the same topologies in Python, and measures how long a statement takes to compile.

    python bench/bench_sql.py [--records N] [--rounds N] [--json FILE]

Each topology runs in one task, from the bytes of a topic to the bytes of another and to the changes of its store.
Rounds alternate between the forms, and the best of each counts, because the machine may be busy;
all times are processor time.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from millstream import App, Table, col, struct, sum_, value
from millstream.engine import Task
from millstream.engine.queues import Columns

SOURCE = """CREATE STREAM orders (id STRING KEY, customer STRING, item STRING, amount INT, price DOUBLE)
    WITH (kafka_topic='orders', value_format='JSON');
"""
FILTER_AND_PROJECT = """CREATE STREAM out AS SELECT id, UCASE(item) AS item, amount * 2 AS twice, price FROM orders
    WHERE amount > 3;"""
KEYED_COUNT = "CREATE TABLE out AS SELECT id, COUNT(*) AS n FROM orders GROUP BY id;"
KEYED_SUM = "CREATE TABLE out AS SELECT id, SUM(amount) AS total FROM orders GROUP BY id;"
STATEMENTS = {
    "filter and project": FILTER_AND_PROJECT,
    "windowed aggregates": """CREATE TABLE per_item AS SELECT item, COUNT(*) AS n, SUM(amount) AS total,
        MAX(price) AS top FROM orders WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 10 SECONDS)
        WHERE amount > 0 GROUP BY item HAVING COUNT(*) > 3 EMIT FINAL;""",
    "join": """CREATE STREAM pairs AS SELECT a.id, a.item, b.item AS other, a.price + b.price AS both FROM orders a
        JOIN others b WITHIN 5 MINUTES GRACE PERIOD 1 MINUTE ON a.id = b.id;""",
}
OTHERS = (
    "CREATE STREAM others (id STRING KEY, item STRING, price DOUBLE) WITH (kafka_topic='o', value_format='JSON');\n"
)
Form = Callable[[App], Any]


def _sql(text: str) -> Form:
    return lambda app: app.sql(SOURCE + text)


def _project_expressions(app: App) -> Any:
    kept = app.stream("orders", key=str).filter(col("amount") > 3)
    return kept.map_values(struct(ITEM=col("item").upper(), TWICE=col("amount") * 2, PRICE=col("price")))


def _project_lambdas(app: App) -> Any:
    kept = app.stream("orders", key=str).filter(lambda row: row["amount"] > 3)
    return kept.map_values(lambda row: {"ITEM": row["item"].upper(), "TWICE": row["amount"] * 2, "PRICE": row["price"]})


def _count_expressions(app: App) -> Any:
    counts = app.stream("orders", key=str).group_by_key().count()
    return counts.map_values(struct(N=value()))


def _count_lambdas(app: App) -> Any:
    return app.stream("orders", key=str).group_by_key().count().map_values(lambda n: {"N": n})


def _sum_expressions(app: App) -> Any:
    return app.stream("orders", key=str).group_by_key().aggregate(TOTAL=sum_(col("amount")))


def _sum_lambdas(app: App) -> Any:
    grouped = app.stream("orders", key=str).group_by_key()
    return grouped.aggregate(lambda: 0, lambda row, total: total + row["amount"], value=int).map_values(
        lambda total: {"TOTAL": total}
    )


CASES: dict[str, dict[str, Form]] = {
    "filter and project": {
        "SQL": _sql(FILTER_AND_PROJECT),
        "expressions": _project_expressions,
        "lambdas": _project_lambdas,
    },
    "keyed count": {"SQL": _sql(KEYED_COUNT), "expressions": _count_expressions, "lambdas": _count_lambdas},
    "keyed sum": {"SQL": _sql(KEYED_SUM), "expressions": _sum_expressions, "lambdas": _sum_lambdas},
}


def inputs(records: int, keys: int) -> Columns:
    """Returns the records of topic orders."""
    rng = random.Random(1)
    names = [b"key-%d" % n for n in range(keys)]
    rows = [
        {
            "customer": f"customer-{rng.randrange(100)}",
            "item": rng.choice(["pen", "desk", "lamp"]),
            "amount": rng.randrange(10),
            "price": rng.randrange(10_000) / 100,
        }
        for _ in range(records)
    ]
    values = [json.dumps(row, separators=(",", ":")).encode() for row in rows]
    return Columns(range(records), range(records), [rng.choice(names) for _ in rows], values, [()] * records)


def run(form: Form, columns: Columns) -> tuple[float, int]:
    """Returns the seconds of processor time that a task takes, and the number of records that it writes."""
    app = App("bench")
    result = form(app)
    if result is not None:
        (result.to_stream() if isinstance(result, Table) else result).to("OUT")
    task = Task(app.topology(), app.config)
    queue = task.input("orders", 0)
    written = 0
    gc.collect()
    started = time.process_time()
    for first in range(0, len(columns.keys), 5_000):
        part = slice(first, first + 5_000)
        task.take([(queue, Columns(*(column[part] for column in columns)))])  # type: ignore[index]
        for output in task.take_outputs():
            written += len(output.keys) if hasattr(output, "keys") else 1
        task.changes()
    return time.process_time() - started, written


def compare(name: str, forms: dict[str, Form], columns: Columns, rounds: int) -> dict[str, Any]:
    """Runs the forms of a case alternately; returns the records per second of each."""
    best = dict.fromkeys(forms, float("inf"))
    counts = {}
    for _ in range(rounds):
        for form, build in forms.items():
            seconds, counts[form] = run(build, columns)
            best[form] = min(best[form], seconds)
    if len(set(counts.values())) != 1:
        sys.exit(f"{name}: the forms do not write the same number of records: {counts}")
    return {form: round(len(columns.keys) / seconds) for form, seconds in best.items()}


def compile_time(statement: str, rounds: int) -> float:
    """Returns the milliseconds that a statement takes, from its text to the operators of the topology."""
    best = float("inf")
    for _ in range(rounds):
        app = App("bench")
        app.sql(SOURCE + OTHERS)
        started = time.process_time()
        app.sql(statement)
        best = min(best, time.process_time() - started)
    return best * 1000


def main() -> int:
    """Measures all cases and prints tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--records", type=int, default=50_000)
    options.add_argument("--keys", type=int, default=1_000)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--json", help="write the figures to this file too")
    arguments = options.parse_args()
    columns = inputs(arguments.records, arguments.keys)
    figures: dict[str, Any] = {"rates": {}, "compile time, ms": {}}
    print(f"{'records/s':24}{'SQL':>12}{'expressions':>14}{'lambdas':>12}{'SQL / expressions':>20}")
    for name, forms in CASES.items():
        rates = figures["rates"][name] = compare(name, forms, columns, arguments.rounds)
        ratio = rates["SQL"] / rates["expressions"]
        print(
            f"{name:24}{rates['SQL']:>12,}{rates['expressions']:>14,}{rates['lambdas']:>12,}{ratio:>20.2f}", flush=True
        )
    print(f"\n{'compile time of':24}{'ms':>12}")
    for name, statement in STATEMENTS.items():
        milliseconds = figures["compile time, ms"][name] = round(compile_time(statement, 20 * arguments.rounds), 2)
        print(f"{name:24}{milliseconds:>12}")
    if arguments.json:
        with pathlib.Path(arguments.json).open("w", encoding="utf-8") as file:
            json.dump(figures, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
