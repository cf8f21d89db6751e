"""The runtime without Spark: results do not depend on batch limits, on the number of tasks, or on warm tasks."""

from __future__ import annotations

import inspect
import random
import shutil
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from millstream import App, Materialized, Serde, tumbling
from millstream.core.partitioning import partition_for
from millstream.errors import (
    AlreadyRunningError,
    IncompatibleTopologyError,
    NonDeterministicError,
    RunError,
    SetupError,
    UnknownStoreError,
    UnknownTopicError,
)
from millstream.log import Log, ProducerRecord, Scope, open_log
from millstream.runtime.admin import migrate, reset
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.publish.committer import Committer
from millstream.runtime.start.application_state import ApplicationState, read_state


def topology(directory: Path, **config: Any) -> App:
    app = App("shop", config={"state.dir": str(directory), **config})
    orders = app.stream("orders", value=int)
    customers = app.table("customers", value=str, store="customers")
    orders.join(customers, lambda order, customer: f"{customer}:{order}").to("joined")
    orders.group_by_key().windowed_by(tumbling(50, grace=20)).count(store="windows").to_stream(
        lambda key, _value: f"{key.key}@{key.start}"
    ).to("windows")
    clicks = app.stream("clicks", value=str).flat_map_values(lambda text: text.split())
    clicks.group_by(lambda word: word).count(store="words").to_stream().to("words")
    return app


def fill(log: Log, seed: int = 1, count: int = 300) -> None:
    rng = random.Random(seed)
    for topic in ("orders", "customers", "clicks"):
        log.create_topic(topic, 2)
        records = []
        for number in range(count):
            key = f"k{rng.randrange(8)}"
            value = {"orders": str(number), "customers": f"c{number}", "clicks": "a b " + key}[topic]
            data = number.to_bytes(8, "big") if topic == "orders" else value.encode()
            records.append(ProducerRecord(key.encode(), data, number * 2 + rng.randrange(12)))
        log.produce(topic, records)


def everything(log: Log, topics: tuple[str, ...] = ("joined", "windows", "words")) -> dict[str, dict[Any, list[Any]]]:
    """The records of each topic, by key and in order."""
    records: dict[str, dict[Any, list[Any]]] = {}
    for topic in topics:
        by_key: dict[Any, list[Any]] = defaultdict(list)
        for partition, end in enumerate(log.ends([topic])[topic]):
            rows = log.read(topic, partition, 0, end).to_pylist()
            for row in rows:
                by_key[row["key"]].append((row["value"], row["timestamp"]))
        records[topic] = dict(by_key)
    return records


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("whole")
    log = open_log(directory)
    fill(log)
    with InProcessRun(topology(directory)) as run:
        assert run.run() <= 3
    return everything(log)


@pytest.mark.parametrize("records", [7, 40, 111, 500])
@pytest.mark.parametrize("cold", [False, True])
def test_results_do_not_depend_on_where_batches_are_cut(
    tmp_path: Path, records: int, cold: bool, expected: dict[str, Any]
) -> None:
    log = open_log(tmp_path)
    fill(log)
    with InProcessRun(topology(tmp_path), records=records, cold=cold) as run:
        assert run.run() >= 2
    assert everything(log) == expected


def test_batches_may_change_their_size_and_the_application_may_stop_in_between(
    tmp_path: Path, expected: dict[str, Any]
) -> None:
    log = open_log(tmp_path)
    fill(log)
    rng = random.Random(3)
    going = True
    while going:
        with InProcessRun(topology(tmp_path), records=rng.randrange(1, 300)) as run:
            going = all(run.batch() for _ in range(rng.randrange(1, 4)))
    assert everything(log) == expected


@pytest.mark.parametrize("tasks", [1, 2, 4, 8])
def test_the_number_of_tasks_changes_no_result_of_a_key(tmp_path: Path, tasks: int, expected: dict[str, Any]) -> None:
    log = open_log(tmp_path)
    fill(log)
    with InProcessRun(topology(tmp_path, num_tasks=tasks), records=100) as run:
        run.run()
    outputs = everything(log)
    assert outputs["words"] == expected["words"]
    assert {k: sorted(v) for k, v in outputs["joined"].items()} == {k: sorted(v) for k, v in expected["joined"].items()}


def test_a_second_instance_is_refused(tmp_path: Path) -> None:
    fill(open_log(tmp_path))
    with (
        InProcessRun(topology(tmp_path)),
        pytest.raises(AlreadyRunningError, match=r"application 'shop' is running already \(process \d+\)"),
    ):
        InProcessRun(topology(tmp_path))
    InProcessRun(topology(tmp_path)).close()


def test_a_missing_input_topic_is_named_with_the_line_that_reads_it(tmp_path: Path) -> None:
    with pytest.raises(UnknownTopicError, match=r"test_in_process\.py:\d+: there is no topic 'orders'"):
        InProcessRun(topology(tmp_path))


def test_a_compatible_topology_continues(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    with InProcessRun(topology(tmp_path)) as run:
        run.run()
    app = topology(tmp_path)
    app.stream("words", value=int).filter(lambda n: n > 100).to("many")  # one more operator
    log.produce("clicks", [ProducerRecord(b"k1", b"a")])
    with InProcessRun(app) as run:
        run.run()
    assert len(everything(log)["words"][b"a"]) == 301


def test_an_incompatible_topology_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    with InProcessRun(topology(tmp_path)) as run:
        run.run()
    before = everything(log), log.applications.state(Scope("shop"))
    app = App("shop", config={"state.dir": str(tmp_path)})
    app.stream("clicks", value=str).group_by_key().reduce(lambda a, b: a + b, store="words").to_stream().to("words")
    with pytest.raises(IncompatibleTopologyError, match=r"words \(of clicks-reduce\): incompatible"):
        InProcessRun(app)
    assert (everything(log), log.applications.state(Scope("shop"))) == before


def test_another_number_of_tasks_is_refused(tmp_path: Path) -> None:
    fill(open_log(tmp_path))
    InProcessRun(topology(tmp_path)).close()
    with pytest.raises(IncompatibleTopologyError, match=r"has 2 tasks, and num\.tasks is now 4"):
        InProcessRun(topology(tmp_path, num_tasks=4))


def test_a_lost_checkpoint_is_refused(tmp_path: Path) -> None:
    fill(open_log(tmp_path))
    with InProcessRun(topology(tmp_path)) as run:
        run.run()
        run.checkpoint.directory.rename(run.checkpoint.directory.with_name("elsewhere"))
    with pytest.raises(SetupError, match="the checkpoint of application 'shop' is gone"):
        InProcessRun(topology(tmp_path))


def test_after_a_reset_the_application_starts_from_its_input(tmp_path: Path, expected: dict[str, Any]) -> None:
    log = open_log(tmp_path)
    fill(log)
    with InProcessRun(topology(tmp_path)) as run:
        run.run()
        with pytest.raises(AlreadyRunningError):
            reset("shop", state_dir=str(tmp_path))
    steps = reset("shop", state_dir=str(tmp_path), dry_run=True)
    assert "delete the internal topic shop-words-changelog" in steps
    assert log.topic("shop-words-changelog")
    done = reset("shop", state_dir=str(tmp_path))
    assert "deleted the internal topic shop-words-changelog" in done
    assert len(done) == len(steps)
    assert [topic.name for topic in log.topics() if topic.internal] == []
    with InProcessRun(topology(tmp_path)) as run:
        run.run()
    twice = {t: {k: v + v for k, v in keys.items()} for t, keys in expected.items()}
    assert everything(log) == twice


@pytest.mark.parametrize(
    ("where", "first"), [({"to": 7}, 7), ({"to_offset": 8}, 8), ({"to_offset": 99}, 10), ({"to": "latest"}, 10)]
)
def test_reset_to_a_time_or_an_offset_reads_from_there(tmp_path: Path, where: dict[str, Any], first: int) -> None:
    log = open_log(tmp_path)
    log.create_topic("in")
    log.produce("in", [ProducerRecord(b"k", b"%d" % n, n) for n in range(10)])
    app = App("copy", config={"state.dir": str(tmp_path)})
    app.stream("in", value=str).to("out")
    with InProcessRun(app) as run:
        run.run()
    reset("copy", **where, state_dir=str(tmp_path))
    app = App("copy", config={"state.dir": str(tmp_path)})
    app.stream("in", value=str).to("out")
    with InProcessRun(app) as run:
        run.run()
    again = log.read("out", 0, 10, log.ends(["out"])["out"][0]).to_pylist()
    assert [row["value"] for row in again] == [b"%d" % n for n in range(first, 10)]


def test_reset_does_not_touch_an_application_whose_id_has_the_same_prefix(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.create_topic("in")
    log.produce("in", [ProducerRecord(b"k", b"v", 1)])
    for name in ("shop", "shop-eu"):
        app = App(name, config={"state.dir": str(tmp_path)})
        app.stream("in", key=str, value=str).group_by_key().count(store="counts")
        with InProcessRun(app) as run:
            run.run()
    reset("shop", state_dir=str(tmp_path))
    assert [topic.name for topic in log.topics() if topic.internal] == ["shop-eu-counts-changelog"]


def test_reset_of_an_unknown_application_is_refused(tmp_path: Path) -> None:
    open_log(tmp_path)
    with pytest.raises(SetupError, match="there is no application 'nobody'"):
        reset("nobody", state_dir=str(tmp_path))


def test_migrate_rebuilds_named_stores_and_continues(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    with InProcessRun(topology(tmp_path), records=200) as run:
        run.run()
    before = everything(log)
    steps = migrate(topology(tmp_path), dry_run=True)
    assert "rebuild store words from shop-words-changelog" in steps
    done = migrate(topology(tmp_path))
    assert "the next start rebuilds store words from shop-words-changelog" in done
    assert len(done) == len(steps)
    log.produce("clicks", [ProducerRecord(b"k1", b"a", 700)])
    log.produce("orders", [ProducerRecord(b"k1", (7).to_bytes(8, "big"), 650), ProducerRecord(b"k1", b"\0" * 8, 1)])
    with InProcessRun(topology(tmp_path), records=50) as run:
        run.run()
        assert run.checkpoint.directory.name.startswith("checkpoint-")
    after = everything(log)
    assert after["words"][b"a"][-1] == ((301).to_bytes(8, "big"), 700)
    latest = after["joined"][b"k1"][-1][0].split(b":")[0]
    assert after["joined"][b"k1"][len(before["joined"][b"k1"]) :] == [(latest + b':7"', 650), (latest + b':0"', 1)]
    assert len(after["windows"]) == len(before["windows"]) + 1  # the record at 1 is late, as it was before
    with InProcessRun(topology(tmp_path)) as run:
        assert run.run() == 0
    assert before == {t: {k: v[: len(before[t][k])] for k, v in after[t].items() if k in before[t]} for t in after}


def test_migrate_is_refused_while_records_wait(tmp_path: Path) -> None:
    fill(open_log(tmp_path))
    with InProcessRun(topology(tmp_path), records=50) as run:
        run.batch()
    with pytest.raises(SetupError, match="was stopped while its tasks held"):
        migrate(topology(tmp_path))


@pytest.mark.parametrize("records", [50, 1000])
def test_records_of_repartition_topics_are_in_the_order_of_time(tmp_path: Path, records: int) -> None:
    """A window behind a second exchange gets records of several tasks; in batches of any size, none of them is late."""
    log = open_log(tmp_path)
    log.create_topic("in", 2)
    log.produce("in", [ProducerRecord(f"k{n % 7}".encode(), b"1", n * 10) for n in range(400)])
    app = App("second", config={"state.dir": str(tmp_path)})
    counts = app.stream("in", value=str).group_by_key().count()
    again = counts.to_stream().map(lambda _key, _count: ("all", 1), key=str, value=int)
    again.group_by_key(name="again").windowed_by(tumbling(100, grace=0)).count(store="windows").to_stream(
        lambda key, _value: str(key.start)
    ).to("out")
    with InProcessRun(app, records=records) as run:
        run.run()
    windows = everything(log, ("out",))["out"]
    counted = {int(key): int.from_bytes(rows[-1][0], "big") for key, rows in windows.items()}
    assert counted == dict.fromkeys(range(0, 4000, 100), 10)


def test_views_and_changelogs_can_be_switched_off_for_each_store(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.create_topic("in", 1)
    log.produce("in", [ProducerRecord(b"k", b"1", 1)])
    app = App("switched", config={"state.dir": str(tmp_path)})
    grouped = app.stream("in", value=str).group_by_key()
    grouped.count(store="both")
    grouped.count(store=Materialized("no-view", view=False))
    grouped.count(store=Materialized("no-changelog", logging=False))
    with InProcessRun(app) as run:
        run.run()
        program = run.application.program
        views = {spec.name for spec in program.topology.stores if program.has_view(spec)}
    assert views == {"both", "no-changelog"}
    changelogs = {topic.name for topic in log.topics() if "changelog" in topic.name}
    assert changelogs == {"switched-both-changelog", "switched-no-view-changelog"}


@pytest.mark.parametrize("topic", ["counts", lambda _value: "chosen"])
def test_all_windows_of_a_key_go_to_one_partition(tmp_path: Path, topic: Any) -> None:
    app = App("windows", config={"state.dir": str(tmp_path), "num.tasks": 4})
    counts = app.stream("in", value=str).group_by_key().windowed_by(tumbling(10)).count()
    counts.to_stream().to(topic)
    with open_log(tmp_path) as log:
        log.create_topic("in", 4)
        log.produce("in", [ProducerRecord(b"abc"[n % 3 : n % 3 + 1], b"x", n * 10) for n in range(30)])
        if topic == "counts":
            log.create_topic("counts", 4)
        with InProcessRun(app) as run:
            run.run()
        name = topic if topic == "counts" else "chosen"
        partitions = {(key[:-8], number) for number in range(4) for key in everything_in(log, name, number)}
    assert partitions == {(letter, partition_for(letter, 4)) for letter in (b"a", b"b", b"c")}


def everything_in(log: Log, topic: str, partition: int) -> list[bytes]:
    keys: list[bytes] = log.read(topic, partition, 0, log.ends([topic])[topic][partition])["key"].to_pylist()
    return keys


def test_stores_are_read_from_an_application_that_does_not_run(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        fill(log)
    app = topology(tmp_path)
    with pytest.raises(UnknownStoreError, match="store 'words' of application 'shop' has no rows yet: no batch"):
        app.store("words").get("a")
    with InProcessRun(app) as run:
        run.run()
    assert app.store("words").get("a") == 300
    assert app.store("words", timestamped=True).get("a").value == 300
    with pytest.raises(UnknownStoreError, match="there is no store 'wrds'") as caught:
        app.store("wrds")
    assert caught.value.hint == "did you mean 'words'?"


@dataclass
class Plain(Serde[str]):
    """A serde that cannot be hashed, like a mutable dataclass."""

    name = "plain"
    python_type = str

    def serialize(self, value: str | None) -> bytes | None:
        return None if value is None else value.encode()

    def deserialize(self, data: bytes | None) -> str | None:
        return None if data is None else data.decode()


def test_a_named_store_may_have_any_serde(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.create_topic("in")
    log.produce("in", [ProducerRecord(b"k", b"v", 1)])
    app = App("plain", config={"state.dir": str(tmp_path), "status": "none"})
    app.table("in", key=Plain(), value=Plain(), store="rows")
    with InProcessRun(app) as local:
        local.run()
    assert app.store("rows").get("k") == "v"


def test_inputs_of_different_times_are_read_in_batches_of_about_the_configured_size(tmp_path: Path) -> None:
    """Also if each block has one record: then the timestamp of each record is known."""
    log = open_log(tmp_path)
    dice = random.Random(7)
    for topic in ("a", "b", "c"):
        log.create_topic(topic, 2)
        time = 0
        for number in range(300):
            time += dice.choice([0, 1, 5, 100])
            log.produce(topic, [ProducerRecord(b"k%d" % (number % 7), b"1", time)])
    app = App("pace", config={"state.dir": str(tmp_path), "status": "none"})
    merged = app.stream("a", value=str).merge(app.stream("b", value=str)).merge(app.stream("c", value=str))
    merged.group_by_key().count(store="counts").to_stream().to("out")
    with InProcessRun(app, records=60) as local:
        assert local.run() < 1.5 * 900 / 60


@pytest.mark.parametrize("at", ["one time", "two times"])
def test_records_of_the_same_time_do_not_pile_up_in_the_state(tmp_path: Path, at: str) -> None:
    """Tasks take records of equal timestamps by partition, so the planner reads the first partition first."""
    log = open_log(tmp_path)
    log.create_topic("in", 3)
    for number in range(30):
        time = 0 if at == "one time" or number < 15 else 5
        log.produce("in", [ProducerRecord(b"k%d" % n, b"1", time, partition=n % 3) for n in range(60)])
    app = App("ties", config={"state.dir": str(tmp_path), "status": "none"})
    app.stream("in", value=str).group_by_key().count(store="counts").to_stream().to("out")
    with InProcessRun(app, records=60) as local:
        batches = 0
        while local.batch():
            batches += 1
            assert sum(result.waiting for result in local.results) <= 90  # one record of each partition in each batch
    assert batches < 1.5 * 1_800 / 60
    assert {app.store("counts").get(f"k{n}") for n in range(60)} == {30}


@pytest.mark.parametrize("way", ["by key", "by value", "two topics", "a pattern"])
def test_late_records_do_not_pile_up_in_the_state(tmp_path: Path, way: str) -> None:
    """Stream time does not go back, so the planner reads the partition with the earliest time first."""
    log = open_log(tmp_path)
    topics = ["in", "in-too"] if way in {"two topics", "a pattern"} else ["in"]
    for rank, topic in enumerate(topics):
        log.create_topic(topic, 3)
        log.produce(topic, [ProducerRecord(b"k%d" % n, b"1", 10**6 - n - rank, partition=n % 3) for n in range(6)])
        for number in range(20):  # all of these are late
            log.produce(topic, [ProducerRecord(b"k%d" % n, b"1", number, partition=n % 3) for n in range(60)])
    app = App("late", config={"state.dir": str(tmp_path), "status": "none"})
    named: Any = {"pattern": "in.*"} if way == "a pattern" else {}
    stream = app.stream(*(() if named else topics), key=str, value=str, **named)
    grouped = stream.group_by(lambda key, _value: key) if way == "by value" else stream.group_by_key()
    grouped.count(store="counts").to_stream().to("out")
    with InProcessRun(app, records=60) as local:
        batches = 0
        while local.batch():
            batches += 1
            assert sum(result.waiting for result in local.results) <= 90  # records of the first batches
    assert batches < 1.5 * 1_200 * len(topics) / 60
    assert {app.store("counts").get(f"k{n}") for n in range(6, 60)} == {20 * len(topics)}


def test_records_whose_own_times_differ_do_not_pile_up_in_the_state(tmp_path: Path) -> None:
    """The timestamps in the log do not show the order of extracted timestamps."""
    log = open_log(tmp_path)
    log.create_topic("in", 3)
    for number in range(40):
        times = (number * 60 + n + 10_000 * (n % 3) for n in range(60))
        now = 10**9 + number
        log.produce("in", [ProducerRecord(b"k%d" % n, b"%d" % t, now, partition=n % 3) for n, t in enumerate(times)])
    app = App("own", config={"state.dir": str(tmp_path), "status": "none"})
    stream = app.stream("in", key=str, value=str, timestamp=lambda _key, value: int(value))
    stream.group_by_key().count(store="counts").to_stream().to("out")
    with InProcessRun(app, records=60) as local:
        batches = 0
        while local.batch():
            batches += 1
            assert sum(result.waiting for result in local.results) <= 3 * 60
    assert batches < 1.5 * 2_400 / 60
    assert {app.store("counts").get(f"k{n}") for n in range(60)} == {40}


def test_a_checkpoint_that_is_older_than_the_results_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    with InProcessRun(topology(tmp_path)) as run:
        run.run()
        copy = shutil.copytree(run.checkpoint.directory, tmp_path / "copy")
        log.produce("clicks", [ProducerRecord(b"k", b"more", 10_000_000)])
        run.run()
        shutil.rmtree(run.checkpoint.directory)
        shutil.copytree(copy, run.checkpoint.directory)
    with pytest.raises(SetupError, match=r"is older than its results: it ends with batch \d+, and batch \d+ was"):
        InProcessRun(topology(tmp_path))


@pytest.mark.parametrize(
    ("partitions", "policy", "what"),
    [(3, "compact", "3 partitions, and must have 1"), (1, "delete", "cleanup.policy delete, and must have compact")],
)
def test_existing_internal_topics_must_fit(tmp_path: Path, partitions: int, policy: str, what: str) -> None:
    log = open_log(tmp_path)
    log.create_topic("in")
    log.create_topic("shop-counts-changelog", partitions, {"cleanup.policy": policy})
    app = App("shop", config={"state.dir": str(tmp_path)})
    app.stream("in", key=str, value=str).group_by_key().count(store="counts")
    with pytest.raises(SetupError, match=f"the application's own topic 'shop-counts-changelog' has {what}"):
        InProcessRun(app)


def test_a_reset_position_overrides_the_offset_reset_policy(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.create_topic("in")
    log.commit_offsets("copy", {("in", 0): 0})

    def run() -> int:
        app = App("copy", config={"state.dir": str(tmp_path), "auto.offset.reset": "none"})
        app.stream("in", value=str).to("out")
        with InProcessRun(app) as local:
            return local.run()

    log.produce("in", [ProducerRecord(b"k", b"v", 1)])
    assert run() == 1
    reset("copy", state_dir=str(tmp_path))
    assert run() == 1
    assert log.ends(["out"]) == {"out": [2]}


Row = tuple[str, str | None, int]
"""Key, value and timestamp."""


def giving(directory: Path, rows: list[Row]) -> App:
    """An application whose store gets a row of `rows` for each record, without a changelog."""
    app = App("rows", config={"state.dir": str(directory), "status": "none"})
    stream = app.stream("in", key=str, value=str, timestamp=lambda _key, value: rows[int(value)][2])
    grouped = stream.group_by(lambda value: rows[int(value)][0], key=str)
    store: Any = Materialized("rows", logging=False)
    grouped.aggregate(lambda: "", lambda value, _old: rows[int(value)][1], store=store, value=str)
    return app


def run_again(directory: Path) -> None:
    """Deletes the last commit of the checkpoint, so that the batch is replayed."""
    commits = directory / "applications" / "rows" / "checkpoint" / "commits"
    max(commits.iterdir(), key=lambda path: int(path.name)).unlink()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param([("ab", "c", 1)], [("a", "bc", 1)], id="cut elsewhere"),
        pytest.param([("k", "", 1)], [("k", None, 1)], id="empty or none"),
        pytest.param([("k", "v", 1)], [("k", "v", 2)], id="another time"),
        pytest.param([("a", "b", 1), ("c", "d", 1)], [("a", "c", 1), ("b", "d", 1)], id="keys and values in turn"),
    ],
)
def test_a_replay_with_other_rows_of_a_view_is_refused(tmp_path: Path, first: list[Row], second: list[Row]) -> None:
    log = open_log(tmp_path)
    log.create_topic("in")
    before = ("k", "before", 0)
    log.produce("in", [ProducerRecord(b"x", b"0", 0)])
    with InProcessRun(giving(tmp_path, [before])) as run:
        assert run.run() == 1
    log.produce("in", [ProducerRecord(b"x", b"%d" % (n + 1), 0) for n in range(len(first))])
    with InProcessRun(giving(tmp_path, [before, *first])) as run:
        assert run.run() == 1
    run_again(tmp_path)
    with InProcessRun(giving(tmp_path, [before, *first])) as run:
        assert run.run() == 1
    run_again(tmp_path)
    with (
        InProcessRun(giving(tmp_path, [before, *second])) as run,
        pytest.raises(NonDeterministicError, match="gives other results in: view rows"),
    ):
        run.run()


@pytest.mark.parametrize("count", [1, 2])
def test_a_batch_that_another_version_has_published_is_compared_by_its_counts(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other version computed digests differently, and did not record a format."""
    log = open_log(tmp_path)
    log.create_topic("in")
    log.produce("in", [ProducerRecord(b"x", b"0", 0)])
    app = giving(tmp_path, [("k", "v", 0)])
    with monkeypatch.context() as patched, InProcessRun(app) as run:
        patched.setattr(Committer, "_fingerprints", lambda *_given: {"view rows": (count, b"another digest")})
        assert run.run() == 1
    run_again(tmp_path)
    with InProcessRun(app) as run:
        if count == 1:
            assert run.run() == 1
        else:
            with pytest.raises(NonDeterministicError, match="gives other results in: view rows"):
                run.run()


def test_records_before_an_offset_can_be_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.create_topic("in", 2)
    for number in range(4):
        log.produce("in", [ProducerRecord(b"k", b"%d" % number, 1)], partition=1)
    log.delete_records({("in", 1): 3})
    assert log.starts(["in"]) == {"in": [0, 3]}
    assert log.cleanup is not None
    log.cleanup.hold("app", {("in", 1): 3})
    log.delete_records({("in", 1): 4})
    assert log.starts(["in"]) == {"in": [0, 3]}


@pytest.mark.parametrize("where", ["without a task", "before an exchange"])
def test_a_read_stage_function_that_does_not_return_is_named(tmp_path: Path, where: str) -> None:
    released = threading.Event()

    def hang(value: str) -> str:
        print("begun")
        released.wait()  # the line that is stuck
        return value

    with open_log(tmp_path) as log:
        log.create_topic("in")
        log.create_topic("other")
        log.produce("in", [ProducerRecord(b"k", b"v")])
    app = App("stuck", config={"state.dir": str(tmp_path), "task.timeout.ms": 300})
    stuck = app.stream("in", value=str).map_values(hang)
    if where == "without a task":
        stuck.to("out")
        app.stream("other", value=str).group_by_key().count(store="counts")
    else:
        stuck.group_by(lambda value: value).count().to_stream().to("out")
    lines, first = inspect.getsourcelines(hang)
    line = first + next(n for n, text in enumerate(lines) if "is stuck" in text)
    with InProcessRun(app) as run, pytest.raises(RunError) as raised:
        run.run()
    released.set()
    assert raised.value.message == (
        f"topic in, partition 0: hang ({__file__}, line {line}) has not returned for 300 ms"
    )
    assert "raise task.timeout.ms" in (raised.value.hint or "")
    with open_log(tmp_path) as log:
        assert log.applications.published(Scope("stuck")) is None


# ----- checkpoints in other places -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "file://localhost{}"])
def test_a_checkpoint_location_may_be_a_file_url(tmp_path: Path, form: str) -> None:
    """The checkpoint is read, migrated beside, and deleted by a reset together with earlier ones."""
    log = open_log(tmp_path / "data")
    fill(log)
    place = tmp_path / "place for it" / "shop"
    place.parent.mkdir()
    config = {"checkpoint.location": form.format(place)}
    with InProcessRun(topology(tmp_path / "data", **config)) as run:
        run.run()
        assert run.checkpoint.directory == place
    place.rename(place.with_name("elsewhere"))
    with pytest.raises(SetupError, match="the checkpoint of application 'shop' is gone"):
        InProcessRun(topology(tmp_path / "data", **config))
    place.with_name("elsewhere").rename(place)
    steps = migrate(topology(tmp_path / "data", **config))
    (new,) = [Path(step.partition("a new checkpoint ")[2]) for step in steps if "new checkpoint" in step]
    assert new.parent == place.parent
    assert new.name.startswith("shop-")
    with InProcessRun(topology(tmp_path / "data", **config)) as run:
        run.run()
        assert run.checkpoint.directory == new
    steps = reset("shop", state_dir=str(tmp_path / "data"))
    assert {f"deleted the checkpoint {place}", f"deleted the checkpoint {new}"} <= set(steps)
    assert list(place.parent.iterdir()) == []
    with InProcessRun(topology(tmp_path / "data", **config)) as run:
        assert run.checkpoint.directory == place
        assert run.run() > 0


def test_a_checkpoint_recorded_as_a_file_url_is_found(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    with InProcessRun(topology(tmp_path)) as run:
        run.run()
    place = tmp_path / "applications" / "shop" / "checkpoint"
    log.applications.set_state(
        Scope("shop"),
        ApplicationState(checkpoint_location=f"file://{place}").dump(),
        log.applications.acquire(Scope("shop")),
    )
    with InProcessRun(topology(tmp_path)) as run:
        assert run.checkpoint.directory == place
        assert run.run() == 0


def moved(directory: Path, place: str) -> tuple[Log, dict[str, bytes]]:
    """An application that, by the record in its log, has run with its checkpoint in another storage."""
    log = open_log(directory)
    fill(log)
    with InProcessRun(topology(directory)) as run:
        run.run()
    log.applications.set_state(
        Scope("shop"), ApplicationState(checkpoint_location=place).dump(), log.applications.acquire(Scope("shop"))
    )
    return log, log.applications.state(Scope("shop"))


@pytest.mark.parametrize("place", ["s3a://bucket/shop", "hdfs://name-node:8020/shop", "dbfs:/shop"])
def test_reset_is_refused_if_the_checkpoint_is_on_another_machine(tmp_path: Path, place: str) -> None:
    log, known = moved(tmp_path, place)
    topics = log.topics()
    for dry_run in (True, False):
        with pytest.raises(SetupError, match=f"cannot be deleted from here: {place}") as raised:
            reset("shop", state_dir=str(tmp_path), dry_run=dry_run)
        assert "then reset with checkpoint_gone=True (--checkpoint-gone)" in (raised.value.hint or "")
    assert (log.applications.state(Scope("shop")), log.topics()) == (known, topics)
    steps = reset("shop", state_dir=str(tmp_path), checkpoint_gone=True)
    assert f"left the checkpoint {place}, which should be gone" in steps
    assert read_state(log, "shop") == ApplicationState(reset_to="earliest")
    with InProcessRun(topology(tmp_path)) as run:
        assert run.run() > 0


def test_migrate_is_refused_if_a_used_checkpoint_location_is_on_another_machine(tmp_path: Path) -> None:
    log, known = moved(tmp_path, "s3a://bucket/shop")
    config = {"checkpoint.location": "s3a://bucket/shop"}
    for dry_run in (True, False):
        with pytest.raises(SetupError, match="cannot be created beside s3a://bucket/shop") as raised:
            migrate(topology(tmp_path, **config), dry_run=dry_run)
        assert "set checkpoint.location to another directory" in (raised.value.hint or "")
    assert log.applications.state(Scope("shop")) == known
    other = {"checkpoint.location": "s3a://bucket/another"}
    assert "the next start begins a new checkpoint s3a://bucket/another" in migrate(topology(tmp_path, **other))
    assert read_state(log, "shop").checkpoint_location == "s3a://bucket/another"
    with pytest.raises(SetupError, match="cannot be created beside s3a://bucket/shop"):
        migrate(topology(tmp_path, **config))  # the first one still exists
    with pytest.raises(SetupError, match="cannot be deleted from here: s3a://bucket/shop"):
        reset("shop", state_dir=str(tmp_path))


def test_migrate_chooses_a_free_directory_for_the_checkpoint(tmp_path: Path) -> None:
    fill(open_log(tmp_path))
    with InProcessRun(topology(tmp_path)) as run:
        run.run()
    own = tmp_path / "applications" / "shop"
    (step,) = [step for step in migrate(topology(tmp_path), dry_run=True) if "new checkpoint" in step]
    Path(step.removeprefix("begin a new checkpoint ")).mkdir()
    assert f"the next start {step.replace('begin', 'begins', 1)}" not in migrate(topology(tmp_path))
    with InProcessRun(topology(tmp_path)) as run:
        run.run()
        assert run.checkpoint.directory.parent == own
        assert f"begin a new checkpoint {run.checkpoint.directory}" != step


def test_at_most_once_is_refused_with_a_checkpoint_on_another_machine(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    config = {"checkpoint.location": "s3a://bucket/shop", "processing.guarantee": "at_most_once"}
    with pytest.raises(SetupError, match="cannot be at_most_once with its checkpoint in s3a://bucket/shop") as raised:
        topology(tmp_path, **config).start()
    assert "the start must read there which batch was begun" in (raised.value.hint or "")
    assert log.applications.state(Scope("shop")) == {}
    assert {topic.name for topic in log.topics()} == {"orders", "customers", "clicks"}


@pytest.mark.parametrize("wrong", [str(2**70), "1e300", '"noon"', "null", "-1"])
def test_invalid_timestamps_are_dropped_in_read_stage_and_task(tmp_path: Path, wrong: str) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("in")
        values = ['{"time": 5}', f'{{"time": {wrong}}}', '{"time": 7}']
        log.produce("in", [ProducerRecord(b"k", value.encode(), 1) for value in values])
    handler = {"deserialization.exception.handler": "continue"}
    app = App("times", config={"state.dir": str(tmp_path), "status": "none", **handler})
    app.stream("in", key=str, value=dict, timestamp="time").group_by_key().count(store="counts")
    with InProcessRun(app) as run:
        run.run()
    assert app.store("counts", timestamped=True).get("k") == (2, 7)
