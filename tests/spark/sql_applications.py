"""Twenty applications in SQL in one process: ``python -m tests.spark.sql_applications DATA_DIR RECORDS_OF_A_BATCH``.

They share one log and one Spark session, and end when they have processed all input.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

from tests.sql.test_sql_and_python import QUERIES, SOURCES, inputs

from millstream import App
from millstream.log import ProducerRecord, open_log

MICRO_BATCH = (
    "filter", "arithmetic", "lambdas", "explode", "partition by a column", "insert into",
    "aggregates by another column", "group by two columns", "having", "group a table", "hopping windows", "sessions",
    "final results", "stream with stream", "stream with table, left", "table with table", "foreign key",
    "three sources",
)  # fmt: skip
REAL_TIME = ("tumbling windows", "count by another column")
FOREIGN_KEY = f"{MICRO_BATCH.index('foreign key')}-OUT"
UNORDERED = {f"{MICRO_BATCH.index(name)}-OUT" for name in ("partition by a column", "insert into")}
SEED, RECORDS = 3, 600


def applications(directory: Path, batch: int) -> list[App]:
    """The applications; each writes topics of its own."""
    made = []
    for number, name in enumerate((*MICRO_BATCH, *REAL_TIME)):
        config = {
            "state.dir": str(directory),
            "status": "none",
            "num.tasks": 2,
            "max.batch.records": batch,
            "min.batch.records": min(batch, 1000),
            "spark.master": "local[6,4]",
        }
        if name in REAL_TIME:
            config |= {"execution.mode": "real_time", "num.workers": 1, "commit.interval.ms": 20}
        app = App(f"sql-{number}", config=config)
        app.sql(f"SET 'ksql.output.topic.name.prefix' = '{number}-'; {SOURCES} {QUERIES[name].sql}")
        made.append(app)
    return made


def fill(directory: Path) -> None:
    """Writes the input."""
    with open_log(directory) as log:
        records: dict[str, list[ProducerRecord]] = defaultdict(list)
        for topic, record in inputs(SEED, RECORDS):
            value = None if record.value is None else json.dumps(record.value).encode()
            records[topic].append(ProducerRecord(record.key.encode(), value, record.timestamp))
        for topic, of_topic in records.items():
            log.create_topic(topic, 2)
            log.produce(topic, of_topic)


def main() -> None:
    """Runs all applications."""
    started = [app.start(until_caught_up=True) for app in applications(Path(sys.argv[1]), int(sys.argv[2]))]
    for handle in started:
        handle.wait()


if __name__ == "__main__":
    main()
