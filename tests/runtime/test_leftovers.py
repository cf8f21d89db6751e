"""State that an earlier run of an application has left: copies, and tables and stores that are added again."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.test_changes import produce, run, values
from tests.unit.log.helpers import in_child

from millstream import App, Materialized, Stream, session
from millstream.core.failpoints import EXIT_STATUS, arm
from millstream.errors import IncompatibleTopologyError, ProcessingError, SetupError
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.admin import migrate, reset
from millstream.runtime.execution import Progress
from millstream.runtime.in_process.batches import AFTER_PUBLISH, InProcessRun
from millstream.runtime.lifecycle import Lifecycle
from millstream.runtime.observe.metrics import Metrics
from millstream.runtime.spark.micro_batch import MicroBatchExecution
from millstream.runtime.start.application_state import read_state
from millstream.runtime.start.prepared_application import PreparedApplication
from millstream.runtime.supervisor import Supervisor

Build = Callable[[Stream[str, str]], Any]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """The log of the data directory, which all applications of a test share."""
    monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path / "data"))
    log = open_log(tmp_path / "data")
    for topic in ("in", "small", "rows"):
        log.create_topic(topic)
    return log


def shop(*parts: Build, **config: Any) -> App:
    """An application that applies a function to its stream."""
    app = App("shop", config={"num.tasks": 1, "status": "none", **config})
    stream = app.stream("in", key=str, value=str)
    stream.group_by_key(name="always").count(store="always", name="count-always")
    for part in parts:
        part(stream)
    return app


def count(stream: Stream[str, str]) -> None:
    stream.group_by_key().count(store="counts").to_stream().to("out")


def counting(store: str, *, logging: bool = True) -> App:
    """An application with one store, with or without a changelog."""
    app = App("counting", config={"num.tasks": 1, "status": "none"})
    app.stream("in", key=str, value=str).group_by_key().count(store=Materialized(store, logging=logging), name="count")
    return app


def looking_up(*, poisoned: bool = False, as_table: bool = False, table: bool = True, **config: Any) -> App:
    """An application that looks records up in a global table, or joins them with the topic as a table."""
    app = shop(**config)
    stream = app.stream("in", key=str, value=str)
    if poisoned:
        stream.peek(lambda value: 1 / (value != "poison")).to("seen")
    if as_table:
        rows = app.table("small", key=str, value=str, store="own-rows")
        stream.join(rows, lambda value, row: f"{value} {row}").to("looked-up", value=str)
    elif table:
        everywhere = app.global_table("small", key=str, value=str, store="small-rows")
        stream.join(everywhere, lambda value, row: f"{value} {row}", on=lambda value: value).to("looked-up", value=str)
    return app


# ----- copies ------------------------------------------------------------------------------------------------------


def test_a_log_that_is_older_than_its_checkpoint_is_refused(log: Log, tmp_path: Path) -> None:
    """Records that were read after the copy was made would be lost."""
    app = shop(lambda stream: stream.to("out"))
    produce(log, "in", *(("a", str(n)) for n in range(10)))
    with InProcessRun(app, records=2) as local:
        local.batch()
    log.close()
    data = tmp_path / "data"
    shutil.copy(data / "log.db", tmp_path / "copy.db")
    run(app, records=2)
    for path in data.glob("log.db*"):
        path.unlink()
    shutil.copy(tmp_path / "copy.db", data / "log.db")
    with pytest.raises(SetupError, match=r"is ahead of its log: it has batch 4, .* published one is 0") as raised:
        run(app)
    assert "millstream migrate" in (raised.value.hint or "")
    shutil.rmtree(data / "applications" / "shop" / "checkpoint")
    migrate(app)
    run(app)
    assert values(open_log(data), "out") == [b"%d" % n for n in range(10)]
    assert app.store("always").get("a") == 10


def test_a_copy_of_a_data_directory_has_a_checkpoint_of_its_own(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(log, "in", ("a", "x"))
    run(shop())
    log.close()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    for name, keys in (("copy", "bbb"), ("data", "aaaaa")):
        monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path / name))
        with open_log(tmp_path / name) as one:
            for key in keys:
                produce(one, "in", (key, "x"))
                run(shop())
    assert (shop().store("always").get("a"), shop().store("always").get("b")) == (6, None)
    (tmp_path / "data").rename(tmp_path / "moved")
    monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path / "moved"))
    assert run(shop()) == 0


def test_a_relative_checkpoint_location_is_resolved_at_the_first_start(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset from another directory must not delete a directory of the same name there."""
    produce(log, "in", ("a", "x"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    run(shop(**{"checkpoint.location": "place"}))
    monkeypatch.chdir(tmp_path / "two")
    (tmp_path / "two" / "place").mkdir()
    assert run(shop(**{"checkpoint.location": "place"})) == 0
    reset("shop")
    assert (tmp_path / "two" / "place").exists()
    assert not (tmp_path / "one" / "place").exists()


def test_a_slash_at_the_end_of_a_location_is_ignored(log: Log, tmp_path: Path) -> None:
    produce(log, "in", ("a", "x"))
    place = {"checkpoint.location": f"{tmp_path}/place/"}
    run(shop(**place))
    assert f"the next start begins a new checkpoint {tmp_path}/place-1" in migrate(shop(**place))


# ----- tables ------------------------------------------------------------------------------------------------------


def test_a_global_table_that_is_added_again_is_read_from_its_start(log: Log) -> None:
    """The topology without the table has run the batch that was planned with it, and has discarded its rows."""
    produce(log, "small", *((f"v{n}", f"row{n}") for n in range(20)))
    produce(log, "in", ("k", "v1"))
    run(looking_up())
    produce(log, "in", ("k", "poison"))
    with InProcessRun(looking_up(poisoned=True)) as local, pytest.raises(ProcessingError):
        local.run()
    run(looking_up(table=False))
    produce(log, "in", ("k", "v2"), ("k", "v3"))
    run(looking_up())
    assert values(log, "looked-up") == [b"v1 row1", b"v2 row2", b"v3 row3"]


def test_a_former_global_table_is_read_from_its_start_as_a_table(log: Log) -> None:
    produce(log, "small", *((f"v{n}", f"row{n}") for n in range(20)))
    produce(log, "in", ("v1", "v1"))
    run(looking_up())
    produce(log, "in", ("v2", "v2"), at=2)
    run(looking_up(as_table=True))
    assert values(log, "looked-up") == [b"v1 row1", b"v2 row2"]
    assert looking_up(as_table=True).store("own-rows").get("v7") == "row7"


def test_records_stay_waiting_while_an_added_global_table_is_read(log: Log) -> None:
    """Otherwise they would be joined with rows that are older than they are."""

    def build(*, table: bool) -> App:
        app = looking_up(table=table)
        rows = app.table("rows", key=str, value=str)
        stream = app.stream("in", key=str, value=str)
        stream.join(rows, lambda value, row: f"{value} {row}").to("joined", value=str)
        return app

    produce(log, "small", ("x", "y"))
    for n in range(50):
        produce(log, "rows", ("k", f"r{n}"), at=n)
    for n in range(5):
        produce(log, "in", ("k", f"v{n}"), at=45 + n)
    with InProcessRun(build(table=False), records=10) as local:
        local.batch()
    assert read_state(log, "shop").waiting
    run(build(table=True), records=10)
    assert values(log, "joined") == [b"v%d r%d" % (n, 44 + n) for n in range(5)]


def test_a_tick_does_not_mark_an_added_global_table_as_read(log: Log) -> None:
    produce(log, "small", *((f"v{n}", f"row{n}") for n in range(5)))
    copying = shop()
    copying.stream("small", key=str, value=str).to("copy")
    run(copying)
    with InProcessRun(looking_up(), ticks=True) as local:
        local.change(due=0, asleep=None)
        local.batch()
        produce(log, "in", ("k", "v1"))
        local.run()
    assert values(log, "looked-up") == [b"v1 row1"]


def test_rows_of_a_global_table_may_be_deleted_before_any_other_record_has_come(log: Log) -> None:
    """A deleted row has no timestamp of its own for the changelog, and the stream has no time yet."""
    produce(log, "small", ("1", "one"), ("2", "two"))
    log.produce("small", [ProducerRecord(b"1", None, 5)])
    run(looking_up())
    assert dict(looking_up().store("small-rows").all()) == {"2": "two"}
    produce(log, "in", ("a", "1"), ("b", "2"))
    run(looking_up())
    assert values(log, "looked-up") == [b"2 two"]


# ----- stores ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("migrated", [False, True])
def test_a_store_that_is_added_again_is_empty_in_view_and_changelog(log: Log, migrated: bool) -> None:
    """Also for queries, and for a migration, which rebuilds the store from its changelog."""
    produce(log, "in", ("a", "1"), ("a", "1"), ("j", "1"))
    run(shop(count))
    run(shop())
    produce(log, "in", ("a", "1"))
    run(shop())
    run(shop(count))
    produce(log, "in", ("a", "1"))
    run(shop(count))
    assert [shop(count).store("counts").get(key) for key in "aj"] == [1, None]
    if migrated:
        migrate(shop(count))
    produce(log, "in", ("j", "1"))
    run(shop(count))
    assert [shop(count).store("counts").get(key) for key in "aj"] == [1, 1]


def test_the_view_of_a_store_that_a_migration_cannot_rebuild_is_empty(log: Log) -> None:
    config = {"store.changelogs": False}
    produce(log, "in", ("a", "1"), ("j", "1"))
    run(shop(count, **config))
    assert "the next start begins with an empty store counts" in migrate(shop(count, **config))
    produce(log, "in", ("a", "1"))
    run(shop(count, **config))
    assert [shop(count, **config).store("counts").get(key) for key in "aj"] == [1, None]


@pytest.mark.parametrize("published", [True, False])
def test_a_changelog_that_was_switched_off_for_a_while_is_not_used_to_rebuild(log: Log, published: bool) -> None:
    """It lacks the changes of that time. If nothing was published meanwhile, it is complete."""
    off = {"store.changelogs": False}
    produce(log, "in", ("a", "1"), ("j", "1"))
    run(shop(count))
    if published:
        produce(log, "in", ("a", "1"))
    run(shop(count, **off))
    run(shop(count))
    produce(log, "in", ("j", "1"))
    run(shop(count))
    if not published:
        migrate(shop(count))
        run(shop(count))
        assert [shop(count).store("counts").get(key) for key in "aj"] == [1, 2]
        return
    with pytest.raises(SetupError, match="store 'always' cannot be rebuilt: its changelog lacks the") as raised:
        migrate(shop(count))
    assert 'store="always-v2"' in (raised.value.hint or "")
    assert [shop(count).store("counts").get(key) for key in "aj"] == [2, 2]


def test_a_changelog_is_complete_again_when_its_store_begins_empty(log: Log) -> None:
    for switched_on in (True, False, True):
        produce(log, "in", ("a", "1"))
        run(counting("counts", logging=switched_on))
    with pytest.raises(SetupError, match="store 'counts' cannot be rebuilt") as raised:
        migrate(counting("counts"))
    assert 'store="counts-v2"' in (raised.value.hint or "")
    for _round in range(2):
        migrate(counting("counts-v2"))
        produce(log, "in", ("a", "1"))
        run(counting("counts-v2"))
    assert counting("counts-v2").store("counts-v2").get("a") == 2
    reset("counting")
    for _round in range(2):
        run(counting("counts"))
        migrate(counting("counts"))
        produce(log, "in", ("a", "1"))
    run(counting("counts"))
    assert counting("counts").store("counts").get("a") == 7


def test_a_store_that_gets_its_first_changelog_with_a_migration_begins_empty_and_complete(log: Log) -> None:
    produce(log, "in", ("a", "1"))
    run(counting("counts", logging=False))
    assert "the next start begins with an empty store counts" in migrate(counting("counts"))
    produce(log, "in", ("a", "1"))
    run(counting("counts"))
    assert "the next start rebuilds store counts from counting-counts-changelog" in migrate(counting("counts"))
    run(counting("counts"))
    assert counting("counts").store("counts").get("a") == 1


def test_a_start_without_a_batch_does_not_change_the_topology_that_ran(log: Log) -> None:
    def joining_text(stream: Stream[str, str]) -> None:
        stream.group_by_key().reduce(lambda one, other: one + other, store="counts")

    produce(log, "in", ("a", "x"))
    run(shop(count))
    InProcessRun(shop()).close()
    with pytest.raises(IncompatibleTopologyError, match="counts"):
        InProcessRun(shop(joining_text))
    run(shop())
    produce(log, "in", ("a", "y"))
    run(shop())
    InProcessRun(shop(joining_text)).close()
    produce(log, "in", ("a", "z"))
    run(shop(joining_text))
    assert shop(joining_text).store("counts").get("a") == "z"


def test_before_the_first_batch_any_topology_is_compatible(log: Log) -> None:
    InProcessRun(shop(count)).close()
    produce(log, "in", ("a", "x"))
    run(shop(lambda stream: stream.group_by_key().reduce(lambda one, other: one + other, store="counts")))


def test_a_store_may_be_removed_while_it_is_rebuilt(log: Log) -> None:
    produce(log, "in", ("a", "1"))
    run(shop(count))
    migrate(shop(count))
    run(shop())
    assert shop().store("always").get("a") == 1


def test_a_migration_refuses_a_store_whose_changelog_is_its_source_topic(log: Log) -> None:
    app = shop(**{"topology.optimization": "all"})
    rows = app.table("rows", key=str, value=str, store="rows")
    app.stream("in", key=str, value=str).join(rows, lambda value, row: f"{value} {row}").to("joined", value=str)
    produce(log, "rows", ("a", "r"))
    run(app)
    with pytest.raises(SetupError, match=r"store 'rows' .* cannot be rebuilt: it has no changelog"):
        migrate(app)


def test_unread_records_are_refused_whichever_operators_are_between_them_and_their_store(log: Log) -> None:
    def build(name: str, *, filtered: bool) -> App:
        app = shop(count)
        counts = app.stream("in", key=str, value=str).group_by_key(name="b").count(store="more", name="count-more")
        moved = counts.to_stream().map(lambda key, value: ("all", key), key=str, value=str).repartition(name=name)
        moved = moved.filter(lambda key, value: True) if filtered else moved.peek(lambda key, value: None)
        moved.to("totals", value=str)
        moved.group_by_key(name="c").count(store="totals", name="count-totals")
        return app

    produce(log, "in", *((f"k{n}", "v") for n in range(20)))
    with InProcessRun(build("second", filtered=True)) as local:
        local.batch()
    with pytest.raises(IncompatibleTopologyError, match="20 unread records"):
        run(build("third", filtered=False))
    run(build("second", filtered=True))
    run(build("third", filtered=False))
    assert len(values(log, "totals")) == 20


# ----- replayed batches --------------------------------------------------------------------------------------------


def test_a_replayed_batch_needs_its_own_topology(log: Log) -> None:
    """Results of another topology would be reported as those of a function that is not deterministic."""
    produce(log, "in", ("a", "x"))

    def child() -> None:
        arm(f"{AFTER_PUBLISH}:1")
        run(shop())

    assert in_child(child) == EXIT_STATUS
    with pytest.raises(IncompatibleTopologyError, match="the topology has changed since") as raised:
        run(shop(count))
    assert "start the former topology once more" in (raised.value.hint or "")
    run(shop())
    run(shop(count))
    assert shop().store("always").get("a") == 1


def test_sessions_that_end_within_a_batch_are_the_same_in_a_replay(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changelogs must not depend on whether a task was warm or was just loaded."""

    def build() -> App:
        return shop(lambda stream: stream.group_by_key().windowed_by(session(1_000)).count(store="counts"))

    def send(*times: int) -> None:
        log.produce("in", [ProducerRecord(b"k%d" % time, b"x", time) for time in times])

    for shift in range(0, 1_000, 250):
        first = 100_000 * (shift + 1)
        with InProcessRun(build()) as local:
            for time in (first, first + 60 + shift):
                send(time)
                local.run()
            monkeypatch.setattr("millstream.runtime.in_process.batches.reach", _ended_after_publication)
            send(*range(first + 70 + shift, first + 2_350 + shift, 10))
            with pytest.raises(InterruptedError):
                local.batch()
            monkeypatch.undo()
            monkeypatch.setenv("MILLSTREAM_DATA", str(Path(local.checkpoint.directory).parents[2]))
        run(build())  # raises an error if the results of the replay differ


def _ended_after_publication(point: str) -> None:
    if point == AFTER_PUBLISH:
        raise InterruptedError


# ----- supervision -------------------------------------------------------------------------------------------------


def prepared(app: App) -> contextlib.closing[PreparedApplication]:
    return contextlib.closing(PreparedApplication(app.topology(), app.config))


def test_a_migrated_application_catches_up(log: Log) -> None:
    """The changelogs that its stores were rebuilt from grow with each batch, and are not read again."""
    produce(log, "in", ("a", "1"))
    run(shop(count))
    migrate(shop(count))
    produce(log, "in", ("b", "1"))
    run(shop(count))
    with prepared(shop(count)) as application:
        assert MicroBatchExecution(application, Metrics(application), until_caught_up=True).is_caught_up()


def test_a_migrated_application_is_rebuilt_with_until_caught_up(log: Log) -> None:
    produce(log, "in", ("a", "1"))
    run(shop(count))
    migrate(shop(count))
    produce(log, "in", ("a", "1"))
    with prepared(shop(count)) as application:
        until = MicroBatchExecution(application, Metrics(application), until_caught_up=True).until
    produce(log, "in", ("a", "1"))
    with InProcessRun(shop(count)) as local:
        local.change(until=until)
        local.run()
    assert shop(count).store("counts").get("a") == 2


def test_records_of_an_added_topic_are_retained_from_the_start_on(log: Log) -> None:
    log.create_topic("new", config={"retention.ms": "1000"})
    produce(log, "in", ("a", "x"))
    run(shop())
    produce(log, "new", *(("a", str(n)) for n in range(3)))
    app = shop()
    app.stream("new", key=str, value=str).to("copy")
    with prepared(app) as application:
        Supervisor(application, MicroBatchExecution, Lifecycle())
    assert log.cleanup is not None
    log.cleanup.apply_retention()
    run(app)
    assert values(log, "copy") == [b"0", b"1", b"2"]


def test_metrics_leave_out_topics_that_are_not_read_any_more(log: Log) -> None:
    log.create_topic("old")
    app = shop(count)
    app.stream("old", key=str, value=str).to("copy")
    for topic in ("in", "old"):
        produce(log, topic, ("a", "1"))
    run(app)
    produce(log, "old", *(("a", "1") for _ in range(100)))
    produce(log, "in", ("a", "2"), ("a", "3"))
    migrate(shop(count))
    log.delete_topic("old")
    with InProcessRun(shop(count)) as local:
        metrics = Metrics(local.application)
        assert metrics.lag() == {"in": 2}
        for number in range(local.run()):
            metrics.add(Progress(number, local.results, 0.1, 0.1, 1))
        assert metrics.lag() == {"in": 0}


def test_records_of_a_global_table_that_is_read_again_count_as_read(log: Log) -> None:
    produce(log, "small", *((f"v{n}", "row") for n in range(300)))
    run(looking_up())
    migrate(looking_up())
    with InProcessRun(looking_up(), records=100) as local:
        metrics = Metrics(local.application)
        for number in range(3):
            local.batch()
            metrics.add(Progress(number, local.results, 0.1, 0.1, 1))
            assert metrics.last_records == 100
