"""A topology that changes between two runs: it continues without loss, or the start is refused and changes nothing."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.helpers import in_child

from millstream import App, col, tumbling
from millstream.core.failpoints import EXIT_STATUS, arm
from millstream.errors import IncompatibleTopologyError, ProcessingError, SetupError
from millstream.log import Log, ProducerRecord, Scope, open_log
from millstream.runtime.admin import migrate, reset
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.start.application_state import read_state


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """The log of the data directory, which all applications of a test share."""
    monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path))
    log = open_log(tmp_path)
    log.create_topic("in", 2)
    return log


def produce(log: Log, topic: str, *records: tuple[str, str], at: int = 1) -> None:
    log.produce(topic, [ProducerRecord(key.encode(), value.encode(), at) for key, value in records])


def run(app: App, **options: Any) -> int:
    with InProcessRun(app, **options) as local:
        return local.run()


def values(log: Log, topic: str) -> list[bytes]:
    return [
        value
        for partition, end in enumerate(log.ends([topic])[topic])
        for value in log.read(topic, partition, 0, end)["value"].to_pylist()
    ]


def everything(log: Log) -> tuple[Any, Any, Any]:
    """All topics and recorded state, which a refused start must not change."""
    return log.topics(), log.applications.state(Scope("shop")), log.ends(topic.name for topic in log.topics())


# ----- global tables -----------------------------------------------------------------------------------------------


def joining(*topics: str) -> App:
    """Looks up the values of its records in each of these tables."""
    app = App("shop", config={"num.tasks": 2})
    stream = app.stream("in", key=str, value=str)
    stream.group_by_key().count(store="counts")
    for topic in topics:
        table = app.global_table(topic, key=str, value=str, store=f"{topic}-rows")
        stream.join(table, lambda value, row: f"{value} {row}", on=lambda value: value).to(f"with-{topic}", value=str)
    return app


def fill_table(log: Log, topic: str, count: int = 100) -> None:
    log.create_topic(topic, 2)
    produce(log, topic, *((f"v{n}", f"row {n}") for n in range(count)))


def fill_stream(log: Log, start: int, end: int) -> None:
    produce(log, "in", *((f"k{n}", f"v{n}") for n in range(start, end)))


def joined(start: int, end: int) -> list[bytes]:
    return sorted(b"v%d row %d" % (n, n) for n in range(start, end))


def test_an_added_global_table_is_read_before_other_records(log: Log) -> None:
    fill_table(log, "small")
    fill_stream(log, 0, 10)
    run(joining())
    fill_stream(log, 10, 100)
    run(joining("small"), records=10)
    assert sorted(values(log, "with-small")) == joined(10, 100)
    assert joining().store("counts").get("k5") == 1


@pytest.mark.parametrize(
    "point", ["start.recorded", "in-process.after-offsets:1", "in-process.after-state:3", "in-process.after-publish:2"]
)
def test_a_crash_while_an_added_global_table_is_read_changes_no_result(log: Log, point: str) -> None:
    """The recorded end offsets of the table limit the first read: records added later are not waited for."""
    fill_table(log, "small")
    run(joining())
    fill_stream(log, 0, 100)
    ends = log.ends(["small"])

    def child() -> None:
        arm(point)
        run(joining("small"), records=10)

    assert in_child(child) == EXIT_STATUS
    produce(log, "small", ("more", "row"))
    with InProcessRun(joining("small"), records=10) as local:
        assert local.application.first.global_ends == ends
        local.run()
    assert sorted(values(log, "with-small")) == joined(0, 100)


def test_a_replayed_batch_reads_an_added_global_table(log: Log) -> None:
    """The batch was planned before the table was added."""
    fill_table(log, "small")
    produce(log, "in", ("k", "poison"))
    app = joining()
    app.stream("in", key=str, value=str).peek(lambda value: 1 / (value != "poison")).to("seen")
    with InProcessRun(app) as local, pytest.raises(ProcessingError, match="division by zero"):
        local.run()
    fill_stream(log, 0, 50)
    fill_table(log, "other", 1)
    produce(log, "other", ("poison", "row"))
    assert run(joining("small", "other"), records=10) > 1
    assert sorted(values(log, "with-small")) == joined(0, 50)
    assert sorted(values(log, "with-other")) == [b"poison row", b"v0 row 0"]


def test_a_global_table_that_is_added_again_is_read_again(log: Log) -> None:
    """Its rows were discarded when it was removed."""
    fill_table(log, "small")
    run(joining("small"))
    fill_stream(log, 0, 10)
    run(joining())
    fill_stream(log, 10, 30)
    run(joining("small"))
    assert sorted(values(log, "with-small")) == joined(10, 30)


def test_a_former_stream_is_read_from_its_start_as_a_global_table(log: Log) -> None:
    fill_table(log, "small")
    app = joining()
    app.stream("small", key=str, value=str).to("copy")
    run(app)
    fill_stream(log, 0, 20)
    run(joining("small"))
    assert sorted(values(log, "with-small")) == joined(0, 20)


def test_after_a_migration_global_tables_are_complete_in_every_task(log: Log) -> None:
    fill_table(log, "small")
    run(joining("small"))
    steps = migrate(joining("small"))
    assert "the next start reads global table small-rows again from small" in steps
    assert not any("store small-rows" in step for step in steps)
    fill_stream(log, 0, 50)
    run(joining("small"), records=20)
    assert sorted(values(log, "with-small")) == joined(0, 50)
    assert joining("small").store("small-rows").get("v7") == "row 7"


@pytest.mark.parametrize("where", [{"to": "latest"}, {"to_offset": 1000}, {"to": 1000}])
def test_after_a_reset_global_tables_are_read_from_their_start(log: Log, where: dict[str, Any]) -> None:
    """The start position of the streams does not matter."""
    fill_table(log, "small")
    fill_stream(log, 0, 10)
    run(joining("small"))
    reset("shop", **where)
    with InProcessRun(joining("small")) as local:
        fill_stream(log, 10, 20)
        local.run()
    assert sorted(values(log, "with-small")) == joined(0, 20)


# ----- start positions ---------------------------------------------------------------------------------------------

NOW = int(time.time() * 1000)


def reading(*topics: str, reset: str | None = None, **config: Any) -> App:
    """Copies each topic to an output topic. Topics after the first have the given offset reset policy."""
    app = App("shop", config=config)
    for number, topic in enumerate(topics):
        options: Any = {"offset_reset": reset} if number and reset else {}
        app.stream(topic, key=str, value=str, **options).to(f"{topic}-copy")
    return app


def fill_hours(log: Log, topic: str) -> None:
    log.create_topic(topic)
    for hours in (5, 3, 1):
        produce(log, topic, ("k", f"{hours} h ago"), at=NOW - hours * 3_600_000)


@pytest.mark.parametrize(
    ("policy", "hours"),
    [("earliest", [5, 3, 1]), ("by_duration:4h", [3, 1]), ("by_duration:PT2H", [1]), ("latest", [])],
)
@pytest.mark.parametrize("way", ["configuration", "source"])
def test_an_added_topic_begins_where_a_first_start_begins(log: Log, way: str, policy: str, hours: list[int]) -> None:
    produce(log, "in", ("k", "one"))
    run(reading("in"))
    fill_hours(log, "new")
    produce(log, "in", ("k", "two"))
    changed = reading("in", "new", auto_offset_reset=policy) if way == "configuration" else None
    with InProcessRun(changed or reading("in", "new", reset=policy)) as local:
        produce(log, "new", ("k", "now"))
        local.run()
    assert values(log, "new-copy") == [*(b"%d h ago" % age for age in hours), b"now"]
    assert values(log, "in-copy") == [b"one", b"two"]


def test_a_restart_keeps_the_start_position_of_an_added_topic(log: Log) -> None:
    run(reading("in"))
    fill_hours(log, "new")
    InProcessRun(reading("in", "new", reset="latest")).close()  # it stops before it has read a record
    produce(log, "new", ("k", "now"))
    run(reading("in", "new", reset="latest"))
    assert values(log, "new-copy") == [b"now"]


def test_an_added_topic_begins_at_committed_offsets_of_the_group(log: Log) -> None:
    produce(log, "in", ("k", "one"))
    run(reading("in"))
    fill_hours(log, "new")
    with pytest.raises(SetupError, match="no committed offset in partition 0 of topic 'new'"):
        InProcessRun(reading("in", "new", reset="none"))
    log.commit_offsets("shop", {("new", 0): 1})
    run(reading("in", "new", reset="none"))
    assert values(log, "new-copy") == [b"3 h ago", b"1 h ago"]


def test_a_topic_that_is_added_again_continues_at_its_offset(log: Log) -> None:
    fill_hours(log, "new")
    run(reading("in", "new"))
    produce(log, "in", ("k", "one"))
    run(reading("in"))
    produce(log, "new", ("k", "meanwhile"))
    run(reading("in", "new", reset="latest"))
    assert values(log, "new-copy") == [b"5 h ago", b"3 h ago", b"1 h ago", b"meanwhile"]


def test_added_partitions_are_read_from_their_start(log: Log) -> None:
    """The offset reset policy does not matter: the application would have read them if it had run."""
    for times in (1, 2):
        run(reading("in", auto_offset_reset="latest"))
        log.add_partitions("in", 2 + times)
        log.produce("in", [ProducerRecord(b"k", b"%d" % times, 1)], partition=1 + times)
    run(reading("in", auto_offset_reset="latest"))
    assert sorted(values(log, "in-copy")) == [b"1", b"2"]


def test_topics_that_match_a_pattern_later_are_read_from_their_start(log: Log) -> None:
    def matching(pattern: str) -> App:
        app = App("shop", config={"auto.offset.reset": "latest"})
        app.stream(pattern=pattern, key=str, value=str).to("copy")
        return app

    for topic in ("old", "a-1", "b-1"):
        fill_hours(log, topic)
    run(matching("a-.*"))
    fill_hours(log, "a-2")
    run(matching("[ab]-.*"))  # b-1 is new to the application, a-2 is not
    assert values(log, "copy") == [b"5 h ago", b"3 h ago", b"1 h ago"]


# ----- unread records of internal topics ---------------------------------------------------------------------------


def regrouped(*, behind: bool = True, through: str = "second", **options: Any) -> App:
    """Counts by another key, behind a table with a repartition topic, or right behind the source without one."""
    app = App("shop")
    stream = app.stream("in", key=str, value=str)
    records = stream.group_by_key().count(store="counts").to_stream() if behind else stream
    again = records.map(lambda _key, _value: ("all", "x"), key=str, value=str)
    again.group_by_key(name=through).count(store="totals", **options)
    return app


def stop_on_the_way(log: Log) -> None:
    """Runs the topology with the repartition topic, and stops before the topic is read to its end."""
    fill_stream(log, 0, 20)
    with InProcessRun(regrouped()) as local:
        assert local.batch()
    assert sum(log.ends(["shop-second-repartition"])["shop-second-repartition"]) == 20


def test_unread_records_of_a_removed_repartition_topic_are_refused(log: Log) -> None:
    stop_on_the_way(log)
    before = everything(log)
    with pytest.raises(IncompatibleTopologyError) as caught:
        InProcessRun(regrouped(behind=False))
    text = " ".join(str(caught.value).split())
    assert "second (of second-repartition): incompatible" in text
    assert "the topic shop-second-repartition has 20 unread records, and the new topology does not read it" in text
    assert "start the former topology once more, with run(until_caught_up=True), and then this one" in text
    with pytest.raises(IncompatibleTopologyError, match="has 20 unread records"):
        migrate(regrouped(behind=False))
    assert everything(log) == before

    run(regrouped())
    fill_stream(log, 20, 25)
    run(regrouped(behind=False))
    assert regrouped().store("totals").get("all") == 25


def test_a_repartition_may_get_a_topic(log: Log) -> None:
    fill_stream(log, 0, 20)
    with InProcessRun(regrouped(behind=False)) as local:
        assert local.batch()
    fill_stream(log, 20, 25)
    run(regrouped())
    assert regrouped().store("totals").get("all") == 25


@pytest.mark.parametrize("options", [{}, {"name": "renamed"}])
def test_unread_records_for_a_kept_store_are_refused(log: Log, options: dict[str, Any]) -> None:
    stop_on_the_way(log)
    operator = options.get("name", "counts-count")
    with pytest.raises(IncompatibleTopologyError, match=rf"second \(of {operator}\): incompatible"):
        InProcessRun(regrouped(through="other", **options))
    run(regrouped())
    fill_stream(log, 20, 25)
    run(regrouped(through="other", **options))
    assert regrouped().store("totals").get("all") == 25


def test_unread_records_for_a_removed_operator_are_accepted(log: Log) -> None:
    stop_on_the_way(log)
    fill_stream(log, 20, 25)
    app = App("shop")
    app.stream("in", key=str, value=str).group_by_key().count(store="counts")
    run(app)
    assert app.store("counts").get("k24") == 1


# ----- stateful and stateless topologies ---------------------------------------------------------------------------


def copying() -> App:
    app = App("shop")
    app.stream("in", key=str, value=str).to("out")
    return app


def counting() -> App:
    app = copying()
    app.stream("in", key=str, value=str).group_by_key().count(store="counts").to_stream().to("counts")
    return app


def test_an_application_that_needs_state_for_the_first_time_is_refused_until_it_is_migrated(
    log: Log, tmp_path: Path
) -> None:
    produce(log, "in", ("a", "one"), ("b", "two"))
    run(copying())
    before = everything(log)
    with pytest.raises(IncompatibleTopologyError) as caught:
        InProcessRun(counting())
    text = " ".join(str(caught.value).split())
    assert "the topology was stateless so far, and in-count (" in text
    assert "test_changes.py:" in text
    for remedy in ("millstream migrate", "millstream reset", "a new application id"):
        assert remedy in text
    assert everything(log) == before

    assert migrate(counting()) == [f"the next start begins a new checkpoint {tmp_path}/applications/shop/checkpoint-1"]
    produce(log, "in", ("a", "three"))
    assert run(counting()) == 1
    assert counting().store("counts").get("a") == 1  # it continues at its offsets: earlier records are not read again
    assert sorted(values(log, "out")) == [b"one", b"three", b"two"]
    assert run(counting()) == 0


def test_an_application_that_needs_no_state_any_more_is_refused_until_it_is_migrated(log: Log) -> None:
    produce(log, "in", ("a", "one"))
    run(counting())
    before = everything(log)
    with pytest.raises(IncompatibleTopologyError, match="was stateful so far, and no operator needs state any more"):
        InProcessRun(copying())
    assert everything(log) == before
    assert "gave up store counts, which the topology has no more" in migrate(copying())
    produce(log, "in", ("a", "two"))
    run(copying())
    assert values(log, "out") == [b"one", b"two"]

    migrate(counting())  # Back again: the earlier state of the tasks is not used.
    with InProcessRun(counting()) as local:
        assert local.application.program.cells == {}
        produce(log, "in", ("a", "three"))
        local.run()
    assert counting().store("counts").get("a") == 1


def test_before_the_first_batch_a_topology_may_become_any_other(log: Log) -> None:
    InProcessRun(copying()).close()
    InProcessRun(counting()).close()
    produce(log, "in", ("a", "one"))
    run(copying())
    assert values(log, "out") == [b"one"]


def test_a_batch_that_was_begun_and_not_published_needs_its_topology(log: Log) -> None:
    """There is no published batch to migrate from, so the error does not suggest a migration."""
    produce(log, "in", ("a", "one"))
    app = App("shop")
    app.stream("in", key=str, value=str).map_values(int).to("out")
    with InProcessRun(app) as local, pytest.raises(Exception, match="invalid literal"):
        local.run()
    with pytest.raises(IncompatibleTopologyError, match="in-count") as caught:
        InProcessRun(counting())
    assert "millstream reset" in str(caught.value)
    assert "millstream migrate" not in str(caught.value)


def test_a_second_migration_does_not_use_the_checkpoint_of_the_first(log: Log) -> None:
    """The checkpoint of the first has begun a batch that was never published."""
    produce(log, "in", ("a", "one"))
    run(copying())
    app = counting()
    app.stream("in", key=str, value=str).map_values(int).to("numbers")
    migrate(app)
    produce(log, "in", ("a", "two"))
    with InProcessRun(app) as local, pytest.raises(Exception, match="invalid literal"):
        local.run()
    assert migrate(copying())[-1].endswith("checkpoint-1-2")
    run(copying())
    assert values(log, "out") == [b"one", b"two"]


# ----- remedies ----------------------------------------------------------------------------------------------------


def windowed(size: int) -> App:
    app = App("shop")
    grouped = app.stream("in", key=str, value=str).group_by_key()
    grouped.count(store="counts")
    grouped.windowed_by(tumbling(size)).count().to_stream(lambda key, _value: key.key).to("out")
    return app


def test_a_store_without_a_name_that_cannot_be_used_begins_empty_when_the_application_is_migrated(log: Log) -> None:
    produce(log, "in", ("a", "one"))
    run(windowed(10))
    with pytest.raises(IncompatibleTopologyError) as caught:
        InProcessRun(windowed(20))
    text = " ".join(str(caught.value).split())
    assert "in-count-store (of in-count-2): incompatible" in text
    assert "the size of its windows was 10ms, and is now 20ms" in text
    assert "let it begin empty: millstream migrate, " in text
    steps = migrate(windowed(20))
    assert "the next start begins with an empty store in-count-store" in steps
    assert "the next start rebuilds store counts from shop-counts-changelog" in steps
    produce(log, "in", ("a", "two"))
    run(windowed(20))
    assert windowed(20).store("counts").get("a") == 2
    assert [int.from_bytes(value, "big") for value in values(log, "out")] == [1, 1]


def test_a_named_store_that_cannot_be_used_needs_another_name(log: Log) -> None:
    """A migration does not help: the changelog contains the rows that cannot be used."""
    produce(log, "in", ("a", "one"))
    run(counting())
    app = App("shop")
    app.stream("in", key=str, value=str).group_by_key().reduce(lambda a, _b: a, store="counts")
    with pytest.raises(IncompatibleTopologyError, match=r'another name \(store="counts-v2"\)') as caught:
        InProcessRun(app)
    assert "millstream migrate" not in str(caught.value)
    with pytest.raises(IncompatibleTopologyError, match=r"counts \(of in-reduce\): its values were long"):
        migrate(app)


# ----- the meaning of rows -----------------------------------------------------------------------------------------


def summing(expression: str, **options: Any) -> App:
    app = App("shop", config={"num.tasks": 2})
    app.stream("in", key=str, value=dict).group_by_key().sum(col(expression), value=int, store="sums", **options)
    return app


def test_a_changed_aggregate_is_refused_until_its_rows_are_kept_on_purpose(log: Log) -> None:
    produce(log, "in", ("k", '{"a": 1, "b": 10}'))
    run(summing("a"))
    before = everything(log)
    with pytest.raises(IncompatibleTopologyError, match=r"its rows were sum\(a\), and are now sum\(b\)") as caught:
        InProcessRun(summing("b"))
    assert "millstream migrate --keep sums" in str(caught.value)
    with pytest.raises(IncompatibleTopologyError, match=r"sum\(b\)"):
        migrate(summing("b"))
    with pytest.raises(SetupError, match="there is no store 'sum' to keep"):
        migrate(summing("b"), keep=["sum"])
    assert everything(log) == before
    assert "the next start rebuilds store sums from shop-sums-changelog" in migrate(summing("b"), keep=["sums"])
    produce(log, "in", ("k", '{"a": 1, "b": 10}'))
    run(summing("b"))
    assert summing("b").store("sums").get("k") == 11


def test_rows_of_another_aggregate_cannot_be_kept(log: Log) -> None:
    produce(log, "in", ("k", '{"a": 1}'))
    run(summing("a"))
    app = App("shop", config={"num.tasks": 2})
    app.stream("in", key=str, value=dict).group_by_key().max(col("a"), value=int, store="sums")
    with pytest.raises(IncompatibleTopologyError, match=r"its rows were sum\(a\), and are now max\(a\)"):
        InProcessRun(app)
    with pytest.raises(IncompatibleTopologyError, match=r"the rows of sums .* cannot be kept"):
        migrate(app, keep=["sums"])


def test_a_changed_python_function_is_reported_at_the_start(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    def mapping(function: Any) -> App:
        app = App("shop", config={"num.tasks": 2})
        app.stream("in", key=str, value=str).map_values(function, value=str).group_by_key().count(store="counts")
        return app

    produce(log, "in", ("k", "v"))
    run(mapping(lambda v: v))
    run(mapping(lambda v: v))
    assert "Python functions changed" not in capsys.readouterr().err
    run(mapping(lambda v: v.upper()))
    [line] = [line for line in capsys.readouterr().err.splitlines() if "Python functions changed" in line]
    assert "in-map-values (test_changes.py:" in line


def test_a_migration_replaces_a_lost_checkpoint(log: Log) -> None:
    produce(log, "in", ("a", "one"), ("b", "two"))
    with InProcessRun(counting()) as local:
        local.run()
        shutil.rmtree(local.checkpoint.directory)
    with pytest.raises(SetupError, match="the checkpoint of application 'shop' is gone") as caught:
        InProcessRun(counting())
    assert str(caught.value.hint).startswith("restore it; or make a new one, with named stores rebuilt ")
    assert "millstream migrate; or begin again from the input: millstream reset; or " in str(caught.value.hint)
    migrate(counting())
    produce(log, "in", ("a", "three"))
    run(counting())
    assert counting().store("counts").get("a") == 2
    assert sorted(values(log, "out")) == [b"one", b"three", b"two"]


def test_a_lost_checkpoint_with_waiting_records_needs_a_reset(log: Log) -> None:
    """The error does not suggest a migration: it would lose the waiting records."""
    log.create_topic("rows", 2)
    for n in range(50):
        produce(log, "rows", ("k", "row"), at=n)
        produce(log, "in", ("k", "value"), at=25 + n)
    app = App("shop")
    table = app.table("rows", key=str, value=str, store="rows")
    app.stream("in", key=str, value=str).join(table, lambda value, _row: value).to("out")
    with InProcessRun(app, records=40) as local:
        local.batch()
        assert (read_state(log, "shop").waiting or 0) > 0
        shutil.rmtree(local.checkpoint.directory)
    with pytest.raises(SetupError, match="is gone") as caught:
        InProcessRun(app)
    assert str(caught.value.hint).startswith("restore it; or begin again from the input: millstream reset")
    with pytest.raises(SetupError, match="records that wait for other inputs") as caught:
        migrate(app)
    assert "if the checkpoint is lost, begin again from the input: millstream reset" in str(caught.value.hint)
