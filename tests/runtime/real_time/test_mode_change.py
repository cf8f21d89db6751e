"""Migrations between micro-batches and workers: results are those of one mode, for stateless parts and named stores."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import run_in
from tests.runtime.real_time.shops import numbers_of, records_of, wait_for

from millstream import App, Materialized, Processor, Record, session, tumbling
from millstream.errors import AlreadyRunningError, SetupError
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.admin import migrate
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.real_time.task_record import read_offsets

KEYS = [f"k{number}" for number in range(20)]
COUNT = 400
"""The number of records of each part of the input."""

OUTPUTS = ["copies", "times", "counted", "windows", "sessions", "by-value", "joined", "named"]


class StreamTime(Processor[str, str, str, int]):
    """Passes the stream time of the task on."""

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(self.context.current_stream_time))


def shop(directory: Path, mode: str, **config: Any) -> App:
    """Stateless operators, and named stores of several kinds: before and behind exchanges."""
    config = {"execution.mode": mode, "status": "none", "num.workers": 2, **config}
    app = App("shop", config={"state.dir": str(directory), **config})
    clicks = app.stream("clicks", key=str, value=str)
    clicks.map_values(str.upper).to("copies", value=str)
    clicks.process(StreamTime).to("times", value=int)
    by_key = clicks.group_by_key()
    by_key.count(store="counts").to_stream().to("counted", value=int)
    windows = by_key.windowed_by(tumbling(1_000, grace=500)).count(store="windows")
    windows.to_stream(lambda key, _count: f"{key.key}@{key.start}").to("windows", key=str, value=int)
    sessions = by_key.windowed_by(session(40, grace=500)).count(store="sessions")
    sessions.to_stream(lambda key, _count: key.key).to("sessions", key=str, value=int)
    by_value = clicks.group_by(lambda value: value).count(store="by-value")
    by_value.to_stream().to("by-value", value=int)
    prices = app.table("prices", key=str, value=str, store="prices")
    clicks.join(prices, lambda click, price: f"{click}-{price}").to("joined", value=str)
    names = app.global_table("names", key=str, value=str, store="names")
    clicks.join(names, lambda click, name: f"{click}-{name}").to("named", value=str)
    return app


def make_log(directory: Path, *, prices: int = 4) -> Log:
    log = open_log(directory)
    log.create_topic("clicks", 4)
    log.create_topic("prices", prices)
    log.create_topic("names", 1)
    log.produce("names", [ProducerRecord(key.encode(), key.upper().encode(), 1) for key in KEYS])
    return log


def produce(log: Log, part: int) -> None:
    """Writes a part of the input.

    The first clicks are late: their windows were closed in the part before, and they are taken after the prices that
    have a greater timestamp, because their order position is that of the latest click before.
    """
    choose = random.Random(part)
    first = 4_000 + part * COUNT * 10
    prices = [(key, b"%d" % (part * 100 + number), first - 3_000) for number, key in enumerate(KEYS)]
    log.produce("prices", [ProducerRecord(key.encode(), value, time) for key, value, time in prices])
    late = [ProducerRecord(key.encode(), b"late", first - 3_500) for key in KEYS]
    times = [first + number * 10 - choose.choice([0, 0, 0, 300, 2_500]) for number in range(COUNT - len(late))]
    clicks = [ProducerRecord(choose.choice(KEYS).encode(), b"v%d" % choose.randrange(7), time) for time in times]
    log.produce("clicks", late + clicks)


def run(app: App) -> None:
    if app.config["execution.mode"] == "micro_batch":
        with InProcessRun(app) as batches:
            batches.run()
    else:
        app.run(until_caught_up=True)


def rows_of(app: App) -> dict[str, Any]:
    """The rows of the stores, as any process can query them."""
    rows: dict[str, Any] = {name: dict(app.store(name).all()) for name in ("counts", "by-value", "prices", "names")}
    rows["windows"] = sorted((w.key, w.start, count) for w, count in app.store("windows").all())
    return rows


def results(log: Log, app: App) -> dict[str, Any]:
    return {**{topic: records_of(log, topic) for topic in OUTPUTS}, **rows_of(app)}


def expected(directory: Path, parts: int, **config: Any) -> dict[str, Any]:
    """The results without any change of the mode."""
    with make_log(directory) as log:
        for part in range(parts):
            produce(log, part)
            run(shop(directory, "micro_batch", **config))
        return results(log, shop(directory, "micro_batch", **config))


@pytest.mark.parametrize(
    ("first", "prices", "config"),
    [
        ("micro_batch", 4, {}),
        ("micro_batch", 3, {}),
        ("micro_batch", 4, {"num.tasks": 8}),
        ("micro_batch", 4, {"input.partitioning": "repartition"}),
        ("local", 4, {}),
        ("local", 3, {}),
        ("local", 4, {"input.partitioning": "repartition"}),
    ],
)
def test_results_are_those_of_one_mode_over_two_changes(
    tmp_path: Path, first: str, prices: int, config: dict[str, Any]
) -> None:
    """Nothing is lost or doubled, whichever numbers of partitions the inputs have, and of tasks there are."""
    wanted = expected(tmp_path / "one", 3, **config)
    directory = tmp_path / "two"
    second = "local" if first == "micro_batch" else "micro_batch"
    with make_log(directory, prices=prices) as log:
        for part, mode in enumerate((first, second, first)):
            app = shop(directory, mode, **config)
            if part:
                migrate(app)
            produce(log, part)
            run(shop(directory, mode, **config))
        assert results(log, app) == wanted


@pytest.mark.parametrize("former", ["micro_batch", "local"])
def test_a_migration_that_was_interrupted_is_run_again(
    tmp_path: Path, former: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last step makes the new mode valid. It fails once."""
    wanted = expected(tmp_path / "one", 2)
    directory = tmp_path / "two"
    other = "local" if former == "micro_batch" else "micro_batch"
    with make_log(directory) as log:
        produce(log, 0)
        run(shop(directory, former))
        last = "publish" if other == "local" else "set_state"
        with monkeypatch.context() as patched:
            patched.setattr(type(log.applications), last, broken)
            with pytest.raises(OSError, match="the power is gone"):
                migrate(shop(directory, other))
        migrate(shop(directory, other))
        produce(log, 1)
        run(shop(directory, other))
        assert results(log, shop(directory, other)) == wanted


def broken(*_args: Any, **_options: Any) -> None:
    raise OSError("the power is gone")


@pytest.mark.parametrize("former", ["micro_batch", "local"])
def test_the_steps_are_listed_before_anything_is_changed(tmp_path: Path, former: str) -> None:
    def application(mode: str) -> App:
        app = App("shop", config={"execution.mode": mode, "status": "none", "state.dir": str(tmp_path)})
        by_value = app.stream("clicks", key=str, value=str).group_by(lambda value: value)
        by_value.count(store="counts").to_stream().to("counted", value=int)
        by_value.windowed_by(tumbling(1_000)).count().to_stream(lambda key, _count: key.key).to("out", key=str)
        return app

    other = "local" if former == "micro_batch" else "micro_batch"
    with make_log(tmp_path) as log:
        produce(log, 0)
        run(application(former))
        before = {topic.name for topic in log.topics()}
        with pytest.raises(SetupError, match="has another form") as refused:
            run(application(other))
        assert "millstream migrate" in (refused.value.hint or "")
        planned = migrate(application(other), dry_run=True)
        assert {topic.name for topic in log.topics()} == before
        assert planned[0].startswith("continue in " + ("workers" if other == "local" else "micro-batches"))
        assert "rebuild store counts from shop-counts-changelog" in planned
        assert any(step.startswith("begin with an empty store clicks-count") for step in planned)
        produce(log, 1)
        run(application(former))  # nothing was changed
        steps = migrate(application(other))
        assert steps[0].startswith("the next start continues in ")
        produce(log, 2)
        run(application(other))
        total = sum(row[-1] for row in numbers_of(log, "counted").values())
        assert total == 3 * COUNT


def test_a_versioned_store_is_refused(tmp_path: Path) -> None:
    def application(mode: str) -> App:
        app = App("shop", config={"execution.mode": mode, "status": "none", "state.dir": str(tmp_path)})
        app.table("prices", key=str, value=str, store=Materialized("prices", history="1h"))
        return app

    with make_log(tmp_path) as log:
        produce(log, 0)
        run(application("local"))
        with pytest.raises(SetupError, match="versioned store has another form"):
            migrate(application("micro_batch"))
        run(application("local"))


def test_rows_that_are_not_where_their_key_belongs_are_refused(tmp_path: Path) -> None:
    """Micro-batches would look for them in other tasks."""

    def application(mode: str) -> App:
        options = {"execution.mode": mode, "input.partitioning": "trust", "status": "none", "state.dir": str(tmp_path)}
        app = App("shop", config=options)
        app.stream("clicks", key=str, value=str).group_by_key().count(store="counts")
        return app

    with make_log(tmp_path) as log:
        log.produce("clicks", [ProducerRecord(key.encode(), b"v", 5) for key in KEYS], partition=1)
        run(application("local"))
        with pytest.raises(SetupError, match="belong to other partitions"):
            migrate(application("micro_batch"))


def test_unread_internal_records_are_refused(tmp_path: Path) -> None:
    """In micro-batches, a second exchange is a topic. The records in it are read by the batch after."""

    def application(mode: str) -> App:
        app = App("shop", config={"execution.mode": mode, "status": "none", "state.dir": str(tmp_path)})
        counts = app.stream("clicks", key=str, value=str).group_by(lambda value: value).count(store="counts")
        counts.to_stream().group_by(lambda _key, count: str(count % 3)).count(store="rests").to_stream().to("rests")
        return app

    with make_log(tmp_path) as log:
        produce(log, 0)
        with InProcessRun(application("micro_batch")) as batches:
            assert batches.batch()
        with pytest.raises(SetupError, match=r"before it had read all records|records that wait") as refused:
            migrate(application("local"))
        assert "until_caught_up" in (refused.value.hint or "")
        run(application("micro_batch"))
        migrate(application("local"))
        produce(log, 1)
        run(application("local"))
        assert sum(row[-1] for row in numbers_of(log, "rests").values()) == 2 * COUNT


def test_a_running_application_is_not_migrated(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        produce(log, 0)
        with shop(tmp_path, "local").start():
            wait_for(lambda: bool(read_offsets(log, "shop")))
            with pytest.raises(AlreadyRunningError):
                migrate(shop(tmp_path, "micro_batch"))


def test_the_command_changes_the_mode_that_is_configured(tmp_path: Path) -> None:
    script = tmp_path / "shop.py"
    script.write_text(
        "from millstream import App\n"
        "app = App('shop', config={'status': 'none'})\n"
        "counts = app.stream('clicks', key=str, value=str).group_by_key().count(store='counts')\n"
        "counts.to_stream().to('counted', value=int)\n"
    )
    command = run_in(tmp_path)
    with make_log(tmp_path) as log:
        produce(log, 0)
        assert command("run", str(script), "--local", "--until-caught-up").code == 0
        mode = ("--config", "execution.mode=micro_batch")
        assert "continue in micro-batches" in command("migrate", str(script), *mode).out
        assert command("migrate", str(script), *mode, "--execute", "--yes").code == 0
        assert "continue in workers" in command("migrate", str(script), "--config", "execution.mode=local").out
        assert sum(row[-1] for row in numbers_of(log, "counted").values()) == COUNT
