"""An application may read topics that it writes itself; the start creates them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from millstream import App
from millstream.errors import SqlError
from millstream.log import ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun

SOURCE = "CREATE STREAM numbers (k STRING KEY, n INT) WITH (kafka_topic='in', value_format='JSON');"


def run(directory: Path, app: App, mode: str, wanted: int) -> list[Any]:
    """Runs an application on three records; returns the keys and values of topic out."""
    with open_log(directory) as log:
        log.create_topic("in", 3)
        log.produce("in", [ProducerRecord(b"k%d" % n, b'{"n": %d}' % n, n) for n in range(3)])
    if mode == "local":
        with app.start(
            mode="local"
        ):  # until it has caught up, it reads the input of its start, but not its own results
            return results(directory, wanted)
    with InProcessRun(app) as local:
        local.run()
    return results(directory, wanted)


def results(directory: Path, wanted: int) -> list[Any]:
    """Returns the keys and values of topic out when there are as many as wanted."""
    deadline = time.monotonic() + 60
    while True:
        with open_log(directory) as log:
            rows = [row for p in range(log.topic("out").partitions) for row in log.read("out", p, 0, 9).to_pylist()]
        if len(rows) >= wanted or time.monotonic() > deadline:
            return sorted((row["key"], row["value"]) for row in rows)
        time.sleep(0.02)


def application(directory: Path) -> App:
    return App("own", config={"state.dir": str(directory), "status": "none"})


@pytest.mark.parametrize("mode", ["micro-batches", "local"])
def test_a_topic_between_two_parts_of_an_application_is_created(mode: str, tmp_path: Path) -> None:
    app = application(tmp_path)
    app.stream("in").map_values(lambda row: row["n"] + 1).to("between")
    app.stream("between").map_values(lambda n: n * 10).to("out")
    assert run(tmp_path, app, mode, 3) == [(b"k0", b"10"), (b"k1", b"20"), (b"k2", b"30")]
    with open_log(tmp_path) as log:
        assert log.topic("between").partitions == 3


@pytest.mark.parametrize("mode", ["micro-batches", "local"])
@pytest.mark.parametrize("format_", ["JSON", "DELIMITED"])
def test_a_query_reads_the_result_of_another_one_of_its_script(mode: str, format_: str, tmp_path: Path) -> None:
    app = application(tmp_path)
    app.sql(f"""{SOURCE}
        CREATE STREAM more WITH (value_format='{format_}') AS SELECT k, n + 1 AS n FROM numbers WHERE n > 0;
        CREATE STREAM o WITH (kafka_topic='out', value_format='JSON') AS SELECT k, n * 10 AS n FROM more;""")
    assert run(tmp_path, app, mode, 2) == [(b"k1", b'{"N":20}'), (b"k2", b'{"N":30}')]
    with open_log(tmp_path) as log:
        assert sum(log.ends(["MORE"])["MORE"]) == 2


@pytest.mark.parametrize("mode", ["micro-batches", "local"])
def test_a_query_reads_all_that_is_inserted_into_a_stream(mode: str, tmp_path: Path) -> None:
    app = application(tmp_path)
    app.sql(f"""{SOURCE}
        CREATE STREAM some AS SELECT k, n FROM numbers WHERE n = 0;
        CREATE STREAM o WITH (kafka_topic='out') AS SELECT k, n FROM some;
        INSERT INTO some SELECT k, n + 5 AS n FROM numbers WHERE n = 1;""")
    assert run(tmp_path, app, mode, 2) == [(b"k0", b'{"N":0}'), (b"k1", b'{"N":6}')]


def test_an_insert_into_a_stream_of_an_earlier_script_is_refused_with_a_remedy() -> None:
    app = App("two-scripts")
    app.sql(f"{SOURCE} CREATE STREAM some AS SELECT k, n FROM numbers;")
    with pytest.raises(SqlError, match="put the INSERT INTO into the script"):
        app.sql("INSERT INTO some SELECT k, n FROM numbers;")
