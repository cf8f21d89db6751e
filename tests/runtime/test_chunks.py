"""Records that are processed in chunks give the same results as single records, also if some of them are invalid."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream import App, Materialized, contract, rule, struct, tumbling, value
from millstream.core.records import Headers
from millstream.engine.chunks import Chunk
from millstream.engine.compile import Build
from millstream.errors import ProcessingError, RunError
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.tasks.warm import WarmTasks
from millstream.state.paged import PagedState

DEAD = "dead"


def number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def counts(app: App) -> None:
    app.stream("in", value=int).group_by_key().count(store="counts").to_stream().to("out")


def windows(app: App) -> None:
    minutes = tumbling(100, grace=60)
    app.stream("in", value=int).group_by_key().windowed_by(minutes).count(store="windows").to_stream().to("out")


def unlogged_windows(app: App) -> None:
    minutes = tumbling(100, grace=30)
    stream = app.stream("in", value=int).group_by_key().windowed_by(minutes).count().to_stream()
    stream.map_values(lambda key, count: f"{key.key}@{key.start}={count}", value=str).to("out")


def long_retention(app: App) -> None:
    kept = Materialized("kept", retention="1h")
    app.stream("in", value=int).group_by_key().windowed_by(tumbling(50, grace=0)).count(store=kept).to_stream().to(
        "out"
    )


def fails_at_seven(value: int) -> str:
    if value % 7 == 0:
        raise ValueError(f"{value} is a multiple of seven")
    if value % 11 == 0:
        raise StopIteration
    return f"v{value}"


def mapped(app: App) -> None:
    app.stream("in", value=int).map_values(fails_at_seven, value=str).to("out")


def mapped_with_key(app: App) -> None:
    app.stream("in", value=int).map_values(lambda key, value: f"{key}{value}" if value % 5 else value).to(
        "out", value=str
    )


def filtered(app: App) -> None:
    app.stream("in", value=int).filter(lambda value: 10 / (value % 9) > 2).to("out")


def filtered_not(app: App) -> None:
    app.stream("in", value=int).filter_not(lambda key, value: value % 3 == 0 or key == "k1").to("out")


def filtered_counts(app: App) -> None:
    app.stream("in", value=int).filter(lambda value: value % 3 > 0).group_by_key().count().to_stream().to("out")


def retimed(app: App) -> None:
    app.stream("in", value=int).with_timestamp(lambda value: 500 - value).to("out")


def retimed_windows(app: App) -> None:
    stream = app.stream("in", value=int).with_timestamp(lambda value: value * 37 % 400 - 3)
    stream.group_by_key().windowed_by(tumbling(100, grace=60)).count(store="windows").to_stream().to("out")


def copied(app: App) -> None:
    app.stream("in", value=int).to("out")


def two_functions(app: App) -> None:
    app.stream("in", value=int).filter(lambda v: v % 2 == 0).map_values(fails_at_seven, value=str).to("out")


def multiplied(app: App) -> None:
    several = app.stream("in", value=int).flat_map_values(lambda v: [fails_at_seven(v)] * (v % 3), value=str)
    several.to("out")


def multiplied_and_counted(app: App) -> None:
    """Several records of one input record pass an exchange, in their order."""
    words = app.stream("in", value=int).flat_map_values(lambda value: [str(n) for n in range(10 // (value % 4) % 5)])
    words.group_by(lambda _key, word: word, key=str).count(store="words").to_stream().to("out")


def multiplied_purely(app: App) -> None:
    numbers = app.stream("in", value=int).map_values(value() + 1)
    numbers.flat_map_values(Multiples(), value=int).filter(value() % 2 == 0).to("out")


class Multiples:
    """A pure function with a form for many records, which fails for some of them."""

    pure = True

    def __call__(self, value: int) -> list[int]:
        return [value] * (10 // (value % 6))

    def for_all(self, values: list[int]) -> list[list[int]]:
        return [self(value) for value in values]


def two_expressions(app: App) -> None:
    """Both fail for some records: the errors are handled in the order of the records."""
    kept = app.stream("in", value=int).filter(100 // (value() % 9) > 13)
    kept.map_values(struct(n=value(), half=600 // (value() % 7))).to("out")


def two_expressions_and_a_function(app: App) -> None:
    numbers = app.stream("in", value=int).filter(value() % 3 > 0).map_values(value() + 1)
    numbers.map_values(fails_at_seven, value=str).to("out")


IN_SQL = """CREATE STREAM s (k STRING KEY, v BIGINT, n BIGINT, i INT, d DECIMAL(5, 2), t STRING)
    WITH (kafka_topic='in', value_format='JSON');"""


def in_sql(value: int) -> bytes:
    """The value of a record of `IN_SQL`."""
    return b'{"v":%d,"n":%s,"i":%d,"d":%d,"t":"t%d"}' % (
        value,
        b"%d" % (value % 5) if value % 5 else b"null",
        value * 3_000_000,
        value,
        value,
    )


def projected_in_sql(app: App) -> None:
    app.sql(
        f"""{IN_SQL} CREATE STREAM o WITH (kafka_topic='out', value_format='JSON') AS
            SELECT k, v * 2 AS twice, 600 / (v % 7) AS q, 1E8 / v AS d FROM s WHERE 100 / (v % 9) > 13;"""
    )


def evaluated_in_sql(app: App) -> None:
    """Operators with nulls, short circuits and errors."""
    app.sql(
        f"""{IN_SQL} CREATE STREAM o WITH (kafka_topic='out', value_format='JSON') AS
            SELECT k, n + v AS added, i * 100 AS wraps, 7 / n AS q, n IS NULL AS missing, n > 2 AS more,
                UCASE(t) AS text, CAST(SUBSTRING(t, 3) AS INT) AS rest, CONCAT(t, CAST(n AS STRING)) AS both,
                NOT (i > 50 AND 100 / (v % 9) > 14) AS inverse, RANDOM() >= 0 AS random, 2 * 3 AS six, -i AS less,
                CASE WHEN n = 1 THEN 'one' ELSE t END AS chosen, 'c' AS c, v / 3.5 AS ratio, d * 2 AS d
            FROM s WHERE (n IS NULL OR n <> 2) AND (v > 3 OR 6 / v > 2) AND t NOT LIKE '%7';"""
    )


def counted_in_sql(app: App) -> None:
    app.sql(f"{IN_SQL} CREATE TABLE o WITH (kafka_topic='out') AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;")


def aggregated_in_sql(app: App) -> None:
    app.sql(
        f"""{IN_SQL} CREATE TABLE o WITH (kafka_topic='out') AS
            SELECT k, SUM(n) AS added, SUM(i * 100) AS wraps, MAX(v) AS most, COUNT(n) AS some, COUNT(*) AS number,
                SUM(v) / COUNT(n) AS part
            FROM s GROUP BY k;"""
    )


def aggregated_with_errors_in_sql(app: App) -> None:
    """Sums of some keys become greater than their type."""
    app.sql(f"{IN_SQL} CREATE TABLE o WITH (kafka_topic='out') AS SELECT k, SUM(d) AS n FROM s GROUP BY k;")


def averaged_in_sql(app: App) -> None:
    """The states are structs, which a store serializes."""
    app.sql(
        f"""{IN_SQL} CREATE TABLE o WITH (kafka_topic='out') AS
            SELECT k, AVG(v) AS n, COLLECT_LIST(v) AS l FROM s GROUP BY k;"""
    )


def regrouped_in_sql(app: App) -> None:
    app.sql(
        f"""{IN_SQL} CREATE TABLE o WITH (kafka_topic='out', key_format='JSON', value_format='JSON') AS
            SELECT v % 7 AS a, 60 / (v % 5) AS b, SUM(v) AS added FROM s GROUP BY v % 7, 60 / (v % 5);"""
    )


def rekeyed_in_sql(app: App) -> None:
    app.sql(
        f"""{IN_SQL} CREATE STREAM o WITH (kafka_topic='out') AS
            SELECT SUBSTRING(t, 1, 2) AS p, k, v FROM s WHERE v > 5 PARTITION BY SUBSTRING(t, 1, 2);"""
    )


def summed(app: App) -> None:
    """Fails for some records: they change no sum."""
    grouped = app.stream("in", value=int).group_by_key()
    grouped.aggregate(lambda: 100, lambda value, total: total + 600 // (value % 7), value=int).to_stream().to("out")


def added(value: int, total: int | None) -> Any:
    if value % 13 == 0:
        return "?"
    return None if value % 5 == 0 else (total or 0) + value


def summed_to_none(app: App) -> None:
    """Some aggregates are None, which deletes the row, or of a type that the store does not take."""
    app.stream("in", value=int).group_by_key().aggregate(lambda: 0, added, value=int).to_stream().to("out")


def summed_by_expression(app: App) -> None:
    grouped = app.stream("in", value=int).filter(value() % 3 > 0).group_by_key()
    grouped.sum(100 // (value() % 9), store=Materialized(value=int)).to_stream().map_values(struct(n=value())).to("out")


def reduced(app: App) -> None:
    app.stream("in", value=int).group_by_key().reduce(lambda one, other: one % 1000 + 7 * other).to_stream().to("out")


class Unsure:
    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


def filtered_by_invalid_result(app: App) -> None:
    app.stream("in", value=int).filter(lambda value: Unsure() if value % 50 == 0 else value % 2).to("out")


def rekeyed(app: App) -> None:
    stream = app.stream("in", value=int).select_key(lambda key, value: f"{key}{100 // (value % 9)}", key=str)
    stream.repartition(name="again").to("out")


def regrouped(app: App) -> None:
    """Some records have no group: they are dropped before the exchange."""
    groups = app.stream("in", value=int).group_by(lambda value: f"g{value % 5}" if value % 7 else None, key=str)
    groups.count(store="counts").to_stream().to("out")


def behind_two_exchanges(app: App) -> None:
    counted = app.stream("in", value=int).group_by(lambda value: f"g{value % 50}", key=str).count(store="counts")
    counted.to_stream().group_by(lambda count: f"c{count % 3}", key=str).count(store="again").to_stream().to("out")


def checked(app: App) -> None:
    rules = contract(value() % 4 != 0, rule("small", value() < 550, on_violation="drop"), on_violation="quarantine")
    app.stream("in", value=int, contract=rules).group_by_key().count(store="n").to_stream().to("out")


def checked_by_function(app: App) -> None:
    app.stream("in", value=int, contract=contract(lambda n: 10 / (n % 9) > 2, on_violation="quarantine")).to("out")


def checked_and_mapped(app: App) -> None:
    rules = contract(value() % 4 != 0, on_violation="quarantine", allow_null=False)
    app.stream("in", value=int, contract=rules).map_values(fails_at_seven, value=str).to("out")


def checked_on_write(app: App) -> None:
    rules = contract(~value().ends_with("3"), on_violation="quarantine", quarantine="aside")
    app.stream("in", value=int).map_values(fails_at_seven, value=str).to("out", contract=rules)


SHAPES = [
    rekeyed, regrouped, behind_two_exchanges, checked, checked_by_function, checked_and_mapped, checked_on_write,
    counts, windows, unlogged_windows, long_retention, mapped, mapped_with_key, filtered, filtered_not,
    filtered_by_invalid_result, filtered_counts, retimed, retimed_windows, copied, two_functions,
    multiplied, multiplied_and_counted, multiplied_purely,
    two_expressions, two_expressions_and_a_function, summed, summed_to_none, summed_by_expression, reduced,
    projected_in_sql, counted_in_sql, evaluated_in_sql, aggregated_in_sql, aggregated_with_errors_in_sql,
    averaged_in_sql, regrouped_in_sql, rekeyed_in_sql,
]  # fmt: skip


def fill(log: Log, seed: int, *, wild: bool, encode: Callable[[int], bytes] = number) -> None:
    """Writes records to two partitions: ordered and valid, or with every kind of invalid record if ``wild``."""
    dice = random.Random(seed)
    log.create_topic("in", 2)
    records = []
    for place in range(600):
        key: bytes | None = f"k{dice.randrange(12)}".encode()
        value: bytes | None = encode(place)
        time = place
        headers: Headers = ()
        if wild:
            time = max(0, place + dice.choice([0, 0, 0, -3, -40, -300, 25]))
            what = dice.random()
            key = None if what < 0.02 else key
            value = None if 0.02 <= what < 0.04 else b"short" if what > 0.985 else value
            headers = (("h", b"1"),) if 0.5 < what < 0.6 else ()
        records.append(ProducerRecord(key, value, time, headers, partition=dice.randrange(2)))
    log.produce("in", records)


def run(directory: Path, shape: Callable[[App], None], batch: int, tasks: int, **config: Any) -> dict[str, Any]:
    app = App("chunks", config={"state.dir": str(directory), "num.tasks": tasks, "status": "none", **config})
    shape(app)
    with open_log(directory) as log:
        log.create_topic("out", 3, exist_ok=True)
        log.create_topic(DEAD, 1, exist_ok=True)
    drops: dict[Any, int] = {}
    with InProcessRun(app, records=batch) as local:
        while local.batch():
            for result in local.results:
                for drop in result.drops:
                    drops[drop.operator, drop.reason] = drops.get((drop.operator, drop.reason), 0) + drop.count
        topics = sorted(topic.name for topic in local.log.topics() if topic.name != "in")
        outputs: dict[str, Any] = {
            f"{topic}-{partition}": [
                (row["key"], row["value"], row["timestamp"], _without_trace(row["headers"]))
                for row in local.log.read(topic, partition, 0, end).to_pylist()
            ]
            for topic in topics
            for partition, end in enumerate(local.log.ends([topic])[topic])
        }
    return {**outputs, "drops": {where: count for where, count in drops.items() if count}}


def _without_trace(headers: Any) -> Any:
    from millstream.log.blocks import decode_headers

    decoded = decode_headers(headers) if isinstance(headers, bytes) else headers or ()
    return [(name, data) for name, data in decoded if "stacktrace" not in name]


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of records of each chunk that was processed."""
    seen: list[int] = []
    made = Chunk.__init__

    def note(self: Chunk, *columns: Any) -> None:
        made(self, *columns)
        seen.append(len(self))

    monkeypatch.setattr(Chunk, "__init__", note)
    return seen


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize(("batch", "tasks"), [(10_000, 1), (170, 2)])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_chunks_give_the_results_of_single_records(
    shape: Callable[[App], None],
    batch: int,
    tasks: int,
    wild: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chunks: list[int],
) -> None:
    lenient = {
        "deserialization.exception.handler": "continue",
        "processing.exception.handler": "continue",
        "production.exception.handler": "continue",
        "errors.dead.letter.queue.topic.name": DEAD,
    }
    results = []
    for name in ("chunks", "singly"):
        directory = tmp_path / name
        with open_log(directory) as log:
            encode = in_sql if shape.__name__.endswith("in_sql") else number
            fill(log, seed=len(shape.__name__), wild=wild, encode=encode)
        results.append(run(directory, shape, batch, tasks, **lenient))
        if name == "chunks":
            assert wild or bool(chunks) != (shape in {two_functions, averaged_in_sql})
            monkeypatch.setattr(Build, "bulk", lambda _self, _node: None)
    assert results[0] == results[1]
    assert len(results[0]["out-0"]) > 20


@pytest.mark.parametrize("shape", [counts, windows, reduced], ids=lambda shape: shape.__name__)
def test_rows_that_are_not_in_memory_are_updated(
    shape: Callable[[App], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_memory(fetch: Any, *, memory_limit: int) -> PagedState:
        assert memory_limit
        return PagedState(fetch, memory_limit=0, log_limit=0, page_bytes=64)

    monkeypatch.setattr("millstream.runtime.tasks.group.PagedState", without_memory)
    monkeypatch.setattr(WarmTasks, "_share_memory", lambda *_arguments: 1)
    results = []
    for name in ("chunks", "singly"):
        directory = tmp_path / name
        with open_log(directory) as log:
            fill(log, seed=1, wild=False)
        results.append(run(directory, shape, 40, 2))
        monkeypatch.setattr(Build, "bulk", lambda _self, _node: None)
    assert results[0] == results[1]


@pytest.mark.parametrize("shape", [mapped, filtered, summed], ids=lambda shape: shape.__name__)
def test_the_first_record_that_fails_is_reported(shape: Callable[[App], None], tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("in", 1)
        log.produce("in", [ProducerRecord(b"k", number(value), value) for value in (1, 2, 9, 14, 18)])
    with pytest.raises(RunError) as raised:
        run(tmp_path, shape, 100, 1)
    assert isinstance(raised.value, ProcessingError)
    offset = 2 if shape is filtered else 3
    assert f"offset {offset}" in raised.value.message, raised.value.message


def test_a_function_is_called_once_for_each_record_and_in_their_order(tmp_path: Path, chunks: list[int]) -> None:
    called = []

    def told(value: int) -> str:
        called.append(value)
        if value in {3, 4, 9}:
            raise ValueError("no")
        return str(value)

    with open_log(tmp_path) as log:
        log.create_topic("in", 1)
        log.produce("in", [ProducerRecord(b"k", number(value), value) for value in range(10)])
    results = run(
        tmp_path,
        lambda app: app.stream("in", value=int).map_values(told, value=str).to("out"),
        100,
        1,
        **{"processing.exception.handler": "continue"},
    )
    assert chunks
    assert called == list(range(10))
    values = [row[1] for partition in range(3) for row in results[f"out-{partition}"]]
    assert values == [b"0", b"1", b"2", b"5", b"6", b"7", b"8"]


def test_a_record_that_is_too_large_does_not_stop_the_others(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("in", 1)
        values = [b"x" * 10, b"y" * 5000, b"z" * 10]
        log.produce("in", [ProducerRecord(b"k", value, place) for place, value in enumerate(values)])
    app = App(
        "large", config={"state.dir": str(tmp_path), "status": "none", "production.exception.handler": "continue"}
    )
    app.stream("in", value=bytes).to("out")
    with open_log(tmp_path) as log:
        log.create_topic("out", 1)
    with InProcessRun(app) as local:
        for task in local._reader._ranges._prefixes:
            task.context.largest = 1000
        local.run()
        assert [row["value"] for row in local.log.read("out", 0, 0, 2).to_pylist()] == [values[0], values[2]]


def test_keys_are_written_in_the_form_of_their_serde_whatever_the_form_of_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks: list[int]
) -> None:
    def shape(app: App) -> None:
        app.stream("in", key=uuid.UUID, value=int).group_by_key().count().to_stream().to("out")

    results = []
    for name in ("chunks", "singly"):
        with open_log(tmp_path / name) as log:
            log.create_topic("in", 1)
            keys = [b"ABCDEF00-0000-0000-0000-000000000001", b"abcdef00-0000-0000-0000-000000000001"]
            log.produce("in", [ProducerRecord(key, number(1), 1) for key in keys * 3])
        results.append(run(tmp_path / name, shape, 100, 1))
        assert chunks
        monkeypatch.setattr(Build, "bulk", lambda _self, _node: None)
    assert results[0] == results[1]


def test_a_renamed_operator_uses_a_window_store_whose_time_is_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks: list[int]
) -> None:
    """A renamed operator begins without a stream time; its store is kept, with the time of its last record."""

    def shape(name: str) -> Callable[[App], None]:
        def build(app: App) -> None:
            grouped = app.stream("in", value=int).group_by_key().windowed_by(tumbling(100, grace=0))
            grouped.count(store="w", name=name).to_stream().to("out")

        return build

    results = []
    for directory in (tmp_path / "chunks", tmp_path / "singly"):
        with open_log(directory) as log:
            log.create_topic("in", 1)
            log.produce("in", [ProducerRecord(b"k", number(1), 10_000)])
        run(directory, shape("first"), 100, 1)
        with open_log(directory) as log:
            log.produce("in", [ProducerRecord(b"k", number(1), 50)] * 40)
        results.append(run(directory, shape("second"), 100, 1))
        monkeypatch.setattr(Build, "bulk", lambda _self, _node: None)
    assert chunks
    assert results[0] == results[1]
    assert len(results[0]["out-0"] + results[0]["out-1"] + results[0]["out-2"]) == 41


def test_an_unlimited_grace_drops_no_record(tmp_path: Path) -> None:
    def shape(app: App) -> None:
        grouped = app.stream("in", value=int).group_by_key().windowed_by(tumbling(100, grace=2**63 - 1))
        grouped.count().to_stream().to("out")

    with open_log(tmp_path) as log:
        fill(log, 1, wild=False)
    results = run(tmp_path, shape, 1000, 1)
    assert sum(len(results[f"out-{partition}"]) for partition in range(3)) == 600


def test_a_failed_batch_leaves_nothing_in_the_next_one(tmp_path: Path) -> None:
    called: list[int] = []

    def fails_once(value: int) -> str:
        called.append(value)
        if value == 3 and called.count(3) == 1:
            raise ValueError("not yet")
        return str(value)

    with open_log(tmp_path) as log:
        log.create_topic("in", 1)
        log.create_topic("out", 1)
        log.produce("in", [ProducerRecord(b"k", number(value), value) for value in range(6)])
    app = App("chunks", config={"state.dir": str(tmp_path), "status": "none"})
    app.stream("in", value=int).map_values(fails_once, value=str).to("out")
    with InProcessRun(app) as local:
        with pytest.raises(ProcessingError, match="not yet"):
            local.batch()
        assert called == [0, 1, 2, 3], "no record behind the one that fails is seen"
        assert local.batch()
        rows = local.log.read("out", 0, 0, local.log.ends(["out"])["out"][0]).to_pylist()
    assert [row["value"] for row in rows] == [b"%d" % value for value in range(6)]


def test_an_exception_handler_is_called_in_record_order(tmp_path: Path) -> None:
    called: list[int] = []

    def picky(value: int) -> str:
        called.append(value)
        raise ValueError(str(value))

    def handler(context: Any, error: BaseException) -> str:
        return "fail" if context.offset == 3 else "continue"

    with open_log(tmp_path) as log:
        log.create_topic("in", 1)
        log.produce("in", [ProducerRecord(b"k", number(value), value) for value in range(10)])
    with pytest.raises(ProcessingError, match="offset 3"):
        run(
            tmp_path,
            lambda app: app.stream("in", value=int).map_values(picky, value=str).to("out"),
            100,
            1,
            **{"processing.exception.handler": handler},
        )
    assert called == [0, 1, 2, 3]
