"""Applications on Spark, through the public API. All share one Spark."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import runpy
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from tests.processes import below, running

from millstream import App, Processor, Record, TestDriver as Driver, col, contract
from millstream.errors import (
    AlreadyRunningError,
    IncompatibleTopologyError,
    MillstreamError,
    ProcessingError,
    RunError,
    UnknownStoreError,
)
from millstream.log import Log, ProducerRecord, Scope, open_log
from millstream.runtime.admin import migrate
from millstream.runtime.handle import Handle
from millstream.runtime.lifecycle import State

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


STOP_SECONDS = 15.0
"""The time that a stop may take on a busy machine. It should take 10 seconds at most."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with open_log(tmp_path) as log:
        yield log


def make(tmp_path: Path, name: str, **config: Any) -> App:
    return App(name, config={"state.dir": str(tmp_path), "status": "none", **config})


def values(log: Log, topic: str) -> list[bytes]:
    ends = log.ends([topic])[topic]
    return [row["value"] for p, end in enumerate(ends) for row in log.read(topic, p, 0, end).to_pylist()]


def until(true: Callable[[], bool], handle: Handle, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, handle.metrics()
        if handle.state.is_over:
            handle.wait()
        time.sleep(0.01)


def test_a_word_count(tmp_path: Path, log: Log, capfd: pytest.CaptureFixture[str]) -> None:
    log.create_topic("lines", 2)
    log.produce("lines", [ProducerRecord(None, b"to be or not to be") for _ in range(100)])
    app = make(tmp_path, "word-count")

    def words(line: str) -> list[str]:
        if line == "print this":
            print("seen:", line)
            logging.getLogger("words").info("logged: %s", line)
        return line.split()

    counts = app.stream("lines", value=str).flat_map_values(words).group_by(lambda word: word).count(store="counts")
    counts.to_stream().to("word-counts")
    states: list[State] = []
    logging.getLogger("words").setLevel(logging.INFO)
    handle = app.start(on_state_change=lambda new, _old: states.append(new))
    until(lambda: sum(log.ends(["word-counts"])["word-counts"]) == 600, handle)
    view = handle.store("counts")
    assert dict(view.all()) == {"be": 200, "not": 100, "or": 100, "to": 200}
    log.produce("lines", [ProducerRecord(None, b"print this")])
    until(lambda: view.get("this") == 1, handle)
    shown: list[str] = []

    def is_shown() -> bool:
        shown.extend(capfd.readouterr().out.splitlines())
        return any(line.endswith("logged: print this") for line in shown)

    until(is_shown, handle)
    assert "seen: print this" in shown

    handle.pause()
    time.sleep(1.0)  # a batch that has begun may still end
    log.produce("lines", [ProducerRecord(None, b"paused")])
    time.sleep(1.0)
    assert view.get("paused") is None
    handle.resume()
    until(lambda: view.get("paused") == 1, handle)

    metrics = handle.metrics()
    assert metrics["sources"]["lines"] == {"read": 102, "lag": 0}
    assert metrics["sinks"]["word-counts"] == 603
    assert metrics["phases"].keys() == {"spark", "read", "engine", "commit"}
    with pytest.raises(UnknownStoreError, match="there is no store 'cuonts'"):
        handle.store("cuonts")
    with pytest.raises(AlreadyRunningError):
        app.start()
    assert handle.stop(timeout=10)
    assert states == [State.STARTING, State.RUNNING, State.PENDING_SHUTDOWN, State.NOT_RUNNING]
    assert handle.store("counts").get("be") == 200  # from the view


def test_no_batch_of_a_backlog_exceeds_the_limit(tmp_path: Path, log: Log) -> None:
    count, most, times = 1_500, 600, 2
    log.create_topic("in", 2)
    log.produce("in", [ProducerRecord(b"k%d" % (n % 9), b"v", n) for n in range(count)])
    app = make(tmp_path, "backlog", **{"max.batch.records": most, "min.batch.records": most})
    counts = app.stream("in", key=str, value=str).group_by_key().count()
    many = counts.to_stream().flat_map(lambda _key, n: [(f"{n % 5}{m}", n) for m in range(times)], key=str, value=int)
    many.group_by_key(name="again").count(store="counts")
    app.run(until_caught_up=True)
    assert sum(n for _key, n in app.store("counts").all()) == count * times
    marks = sorted((tmp_path / "applications" / "backlog" / "checkpoint" / "offsets").glob("[0-9]*"), key=number_of)
    assert number_of(marks[0]) == 0, "Spark keeps the marks of ten batches"
    read = [sum(map(sum, json.loads(mark.read_text().splitlines()[-1])["offsets"].values())) for mark in marks]
    sizes = [after - before for before, after in pairwise([0, *read])]
    assert sum(sizes) == count * (1 + times)
    assert max(sizes) <= most + 4  # at least one record of each partition
    assert max(sizes) > most / 2


def number_of(path: Path) -> int:
    return int(path.name)


def number(text: str) -> int:
    return int(text)


def test_a_failing_function_is_named_and_nothing_of_its_batch_is_published(tmp_path: Path, log: Log) -> None:
    log.create_topic("in")
    log.produce("in", [ProducerRecord(b"k", b"1", 1), ProducerRecord(b"k", b"x", 2)])
    app = make(tmp_path, "failing")
    app.stream("in", value=str).map_values(number, value=int).group_by_key().reduce(lambda a, b: a + b).to_stream().to(
        "out"
    )
    states: list[State] = []
    with pytest.raises(ProcessingError) as caught:
        app.run(until_caught_up=True, on_state_change=lambda new, _old: states.append(new))
    assert states == [State.STARTING, State.RUNNING, State.PENDING_ERROR, State.ERROR]
    assert "topic in, partition 0, offset 1" in caught.value.message
    assert "test_application.py" in caught.value.message
    assert "invalid literal for int()" in caught.value.message
    assert values(log, "out") == []


def test_poison_records_go_to_the_dead_letter_topic(tmp_path: Path, log: Log) -> None:
    log.create_topic("in", 2)
    log.produce("in", [ProducerRecord(b"%d" % n, b"x" if n % 10 == 0 else b"%d" % n, n) for n in range(100)])
    options = {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "letters"}
    app = make(tmp_path, "poisoned", **options)
    app.stream("in", value=str).map_values(number, value=int).to("out")
    handle = app.start(until_caught_up=True)
    handle.wait()
    assert len(values(log, "out")) == 90
    assert values(log, "letters") == [b"x"] * 10
    assert sum(handle.metrics()["dropped"].values()) == 10


def test_violations_of_contracts_go_to_quarantine(tmp_path: Path, log: Log) -> None:
    log.create_topic("in", 2)
    log.produce("in", [ProducerRecord(b"%d" % n, b'{"n": %d}' % n, n) for n in range(100)])
    app = make(tmp_path, "checked")
    numbers = app.stream("in", contract=contract(col("n") % 10 != 0, name="numbers", on_violation="quarantine"))
    numbers.group_by_key().count().to_stream().to("counts")
    numbers.to("out", contract=contract(lambda value: value["n"] % 7 != 0, name="outputs", on_violation="quarantine"))
    handle = app.start(until_caught_up=True)
    handle.wait()
    assert sorted(values(log, "numbers-quarantine")) == [b'{"n": %d}' % n for n in range(0, 100, 10)]
    assert sorted(values(log, "outputs-quarantine")) == sorted(b'{"n": %d}' % n for n in range(0, 100, 7) if n % 10)
    assert len(values(log, "counts")) == 90
    figures = handle.metrics()["contracts"]
    assert figures["numbers"] == {"dropped": 0, "quarantined": 10, "rules": {"n % 10 <> 0": {"violated": 10}}}
    assert figures["outputs"]["quarantined"] == len(values(log, "outputs-quarantine"))


class Ticking(Processor[str, str, str, str]):
    def init(self) -> None:
        self.context.schedule("100ms", "wall", self.tick)

    def tick(self, now: int) -> None:
        self.context.forward(Record("tick", str(now), now))

    def process(self, record: Record[str, str]) -> None:
        pass


def test_wall_clock_punctuators_fire_without_records(tmp_path: Path, log: Log) -> None:
    log.create_topic("in")
    app = make(tmp_path, "ticking")
    app.stream("in", value=str).process(Ticking, key=str, value=str).to("out")
    with app.start() as handle:
        until(lambda: len(values(log, "out")) >= 3, handle)
    times = [int(value) for value in values(log, "out")]
    assert times == sorted(set(times))


def test_global_tables_are_read_first_in_every_task(tmp_path: Path, log: Log) -> None:
    log.create_topic("orders", 4)
    log.create_topic("products")
    log.produce("products", [ProducerRecord(b"p%d" % n, b"name %d" % n, n) for n in range(50)])
    log.produce("orders", [ProducerRecord(b"o%d" % n, b"p%d" % (n % 50), n) for n in range(400)])
    app = make(tmp_path, "global")
    products = app.global_table("products", value=str, store="products")
    app.stream("orders", value=str).join(products, lambda _order, name: name, on=lambda _key, order: order).to("out")
    handle = app.start(until_caught_up=True)
    handle.wait()
    assert len(values(log, "out")) == 400
    assert handle.store("products").get("p7") == "name 7"


def test_topics_that_match_a_pattern_later_are_read(tmp_path: Path, log: Log) -> None:
    log.create_topic("log-a")
    log.produce("log-a", [ProducerRecord(b"k", b"1")])
    app = make(tmp_path, "pattern")
    app.stream(pattern="log-.*", value=str).group_by_key().count(store="lines")
    with app.start() as handle:
        until(lambda: handle.metrics()["batches"] > 0 and handle.store("lines").get("k") == 1, handle)
        log.create_topic("log-b", 3)
        log.produce("log-b", [ProducerRecord(b"k", b"2")])
        until(lambda: bool(handle.store("lines").get("k") == 2), handle)


@pytest.mark.parametrize("where", ["in a task", "where records are read"])
def test_a_function_that_never_returns_is_named(tmp_path: Path, log: Log, where: str) -> None:
    log.create_topic("in")
    log.produce("in", [ProducerRecord(b"k", b"1")])
    app = make(tmp_path, "stuck", **{"task.timeout.ms": 2000})

    def waits_for_ever(value: str) -> str:
        (tmp_path / "process").write_text(str(os.getpid()))
        time.sleep(3600)
        return value

    source = app.stream("in", value=str)
    if where == "in a task":
        source.group_by_key().reduce(lambda a, _b: a).map_values(waits_for_ever, value=str).to_stream()
    else:
        source.map_values(waits_for_ever, value=str).to("out")
    with pytest.raises(
        RunError, match=r"waits_for_ever \(.*test_application\.py, line \d+\) has not returned for 2000 ms"
    ):
        app.run(until_caught_up=True)
    stuck = int((tmp_path / "process").read_text())
    deadline = time.monotonic() + 15
    while stuck in running() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert stuck not in running()


@pytest.mark.parametrize("where", ["in a task", "where records are read"])
def test_a_function_that_ends_its_process_is_named_and_retries_are_reported(
    tmp_path: Path, log: Log, where: str, capfd: pytest.CaptureFixture[str]
) -> None:
    log.create_topic("in")
    log.produce("in", [ProducerRecord(b"k", b"1"), ProducerRecord(b"k", b"2")])
    app = make(tmp_path, "ending", status="json")

    def ends_its_process(value: str) -> str:
        if value == "2":
            os._exit(3)
        return value

    source = app.stream("in", value=str)
    if where == "in a task":
        source = source.group_by_key().reduce(lambda _a, b: b).to_stream()
    source.map_values(ends_its_process, value=str, name="ending").to("out")
    with pytest.raises(ProcessingError) as caught:
        app.run(until_caught_up=True)
    assert "operator 'ending' (topic in, partition 0, offset 1, function test_application.py:" in caught.value.message
    assert "the function ended its process (exit code 3)" in caught.value.message
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    retries = [line["retry"] for line in lines if "retry" in line]
    assert len([line for line in retries if "its process ended" in line and "offset 1" in line]) == 2
    assert not [line for line in lines if "restart_in_seconds" in line]
    assert values(log, "out") == []


TWO = """
    import sys
    import threading
    import time
    from millstream import App
    from millstream.errors import MillstreamError

    config = {"state.dir": sys.argv[1], "status": "none"}
    apps = [App(name, config=config) for name in ("one", "other")]
    for app in apps:
        app.stream("in", value=str).group_by_key().count(store="counts")

    def say():
        while not running.wait(0.05):
            print("a word", file=sys.stderr, flush=True)

    if __name__ == "__main__":
        running = threading.Event()
        thread = threading.Thread(target=say)
        thread.start()
        handles = [app.start() for app in apps]
        while not all(handle.metrics()["batches"] for handle in handles):
            for handle in handles:
                handle.wait(0.05)
        running.set()
        thread.join()
        print("running", flush=True)
        for handle in handles:
            try:
                handle.wait()
            except MillstreamError as error:
                print(error.message, flush=True)
"""


def test_two_applications_start_at_the_same_time_and_end_with_java(tmp_path: Path, log: Log) -> None:
    """Output of the program to stderr while Spark starts is shown; output of PySpark when Java ends is not."""
    log.create_topic("in")
    log.produce("in", [ProducerRecord(b"k", b"1")])
    path = tmp_path / "two.py"
    path.write_text(textwrap.dedent(TWO))
    process = subprocess.Popen(
        [sys.executable, str(path), str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    for child in below(process.pid):
        if "SparkSubmit" in child.command:
            os.kill(child.pid, signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert out.splitlines() == ["the application stopped: Spark's Java process has ended"] * 2
    assert set(err.splitlines()) == {"a word"}
    assert err.count("a word") > 10


SCRIPT = """
    import logging
    import sys
    import beside
    from millstream import App

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    print("the script runs", flush=True)
    app = App("script", config={"state.dir": sys.argv[1], "status": "none"})
    app.stream("in", value=str).map_values(beside.shout).group_by_key().count(store="counts")

    if __name__ == "__main__":
        app.run()
        print("the script ends", flush=True)
"""


BESIDE = """
    import logging

    def shout(text):
        print("shouting", flush=True)
        logging.getLogger(__name__).info("loudly")
        return text.upper()
"""


def script(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "beside.py").write_text(textwrap.dedent(BESIDE))
    path = folder / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


IMPORTING = """
    import sys
    import far_away
    import far_off
    from millstream import App, MillstreamError

    def run(module):
        app = App(module.__name__, config={"state.dir": sys.argv[1], "status": "json"})
        app.stream("in", value=str).map_values(module.shout).group_by_key().count(store="counts")
        app.run(until_caught_up=True)

    try:
        run(far_away)
    except MillstreamError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    run(far_off)
"""

FAR_AWAY = """
    import sys

    if "{process}" in " ".join(sys.orig_argv):
        raise ModuleNotFoundError(f"No module named '{{__name__}}'")

    def shout(text):
        return text.upper()
"""


def test_a_module_that_is_missing_where_the_application_runs_is_named_once(tmp_path: Path, log: Log) -> None:
    """One is missing in workers, another one in the process that plans batches."""
    log.create_topic("in")
    log.produce("in", [ProducerRecord(b"k", b"1")])
    files = {
        "project/importing": IMPORTING,
        "library/far_away": FAR_AWAY.format(process="pyspark.worker"),
        "library/far_off": FAR_AWAY.format(process="python_streaming_source_runner"),
    }
    for name, text in files.items():
        path = (tmp_path / name).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
    paths = [str(tmp_path / "library"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, str(tmp_path / "project" / "importing.py"), str(tmp_path)],
        capture_output=True, text=True, timeout=200, check=False, cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    assert done.returncode != 0
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert not [line for line in lines if "restart_in_seconds" in line]
    for name in ("far_away", "far_off"):
        assert [line["state"] for line in lines if line.get("application") == name and "state" in line][-1] == "ERROR"
        assert (
            "RunError: a module that the application needs cannot be imported where it runs: "
            f"No module named '{name}'\n  hint: install it on every machine of the cluster" in done.stderr
        )


def test_a_script_uses_the_module_beside_it_and_leaves_nothing_behind_after_ctrl_c(tmp_path: Path, log: Log) -> None:
    log.create_topic("in")
    log.produce("in", [ProducerRecord(b"k", b"1")])
    process = subprocess.Popen(
        [sys.executable, str(script(tmp_path)), str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd="/",
    )  # fmt: skip
    _wait_for(lambda: log.applications.published(Scope("script")) is not None, process)
    os.kill(process.pid, signal.SIGINT)
    started = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - started < STOP_SECONDS
    assert out.splitlines() == ["the script runs", "shouting", "INFO loudly", "the script ends"]
    assert (process.returncode, err) == (0, "")
    _wait_until_none_mentions(str(tmp_path))


SLOW = """
    import sys
    import time
    from pathlib import Path
    from millstream import App

    directory, where = sys.argv[1:]
    begun = Path(directory, "begun")

    def slow(value):
        if value == "slow" and not begun.exists():
            begun.touch()
            time.sleep(60)
        return value

    app = App("slow", config={"state.dir": directory, "status": "none"})
    stream = app.stream("in", value=str)
    if where == "task":
        stream = stream.group_by_key().reduce(lambda a, b: f"{a} {b}", store="all").to_stream()
    stream.map_values(lambda value: value if slow(value.split()[-1]) else "", value=str).to("out")

    if __name__ == "__main__":
        app.run()
"""


@pytest.mark.parametrize("where", ["task", "read stage"])
def test_ctrl_c_abandons_a_long_batch(tmp_path: Path, log: Log, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create_topic("in")
    log.produce("in", [ProducerRecord(b"k", b"first", 1)])
    path = tmp_path / "slow.py"
    path.write_text(textwrap.dedent(SLOW))
    command = [sys.executable, str(path), str(tmp_path), where]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)
    _wait_for(lambda: log.applications.published(Scope("slow")) is not None, process)
    log.produce("in", [ProducerRecord(b"k", b"before", 2), ProducerRecord(b"k", b"slow", 3)])
    _wait_for((tmp_path / "begun").exists, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    started = time.monotonic()
    output = process.communicate(timeout=60)
    assert time.monotonic() - started < STOP_SECONDS
    assert (process.returncode, output) == (0, ("", ""))
    assert len(values(log, "out")) == 1  # no record of the batch
    _wait_until_none_mentions(str(tmp_path))
    monkeypatch.setattr(sys, "argv", command[1:])
    runpy.run_path(str(path), run_name="slow")["app"].run(until_caught_up=True)
    together = [b"first", b"first before", b"first before slow"]
    assert values(log, "out") == (together if where == "task" else [b"first", b"before", b"slow"])


def test_ctrl_c_does_not_wait_for_spark_to_start(tmp_path: Path, log: Log) -> None:
    log.create_topic("in")
    process = subprocess.Popen(
        [sys.executable, str(script(tmp_path)), str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0,
    )  # fmt: skip
    _wait_for((tmp_path / "tmp").exists, process)  # Java, which Spark needs
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=STOP_SECONDS)
    assert (process.returncode, out.splitlines()[-1], err) == (0, "the script ends", "")
    assert log.applications.published(Scope("script")) is None
    _wait_until_none_mentions(str(tmp_path))


def _wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 150
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _wait_until_none_mentions(text: str) -> None:
    deadline = time.monotonic() + 15
    while _mentioning(text) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _mentioning(text) == []


def _mentioning(text: str) -> list[str]:
    """The command lines that contain a text."""
    commands = (process.command for process in running().values())
    return [command for command in commands if text in command and "pytest" not in command]


def test_errors_of_the_start_are_raised_at_once(tmp_path: Path) -> None:
    app = make(tmp_path, "nothing")
    app.stream("missing", value=str).to("out")
    with pytest.raises(MillstreamError, match="there is no topic 'missing'"):
        app.start()


def test_a_function_may_refer_to_megabytes_of_data(tmp_path: Path, log: Log) -> None:
    log.create_topic("in", 1)
    log.produce("in", [ProducerRecord(b"k", b"7")])
    model = os.urandom(3_000_000)
    app = make(tmp_path, "large")
    app.stream("in", value=str).map_values(lambda text: model[int(text)], value=int).group_by_key().reduce(
        lambda a, b: a + b + len(model)
    ).to_stream().to("out")
    app.run(until_caught_up=True)
    assert values(log, "out") == [model[7].to_bytes(8, "big")]


def test_rocksdb_does_not_write_to_the_log_while_java_ends(tmp_path: Path, log: Log) -> None:
    # A warning of its own threads at that moment would leave a Java process that never ends.
    log.create_topic("in", 1)
    app = make(tmp_path, "quiet")
    app.stream("in", value=str).group_by_key().count().to_stream().to("out")
    with app.start() as handle:
        until(lambda: handle.state is State.RUNNING, handle)
        assert SparkContext._jvm is not None
        logs = SparkContext._jvm.org.apache.logging.log4j.LogManager
        name = "org.apache.spark.sql.execution.streaming.state.RocksDB StateStoreId[ operatorId=0 ]"
        assert not logs.getLogger(name).isWarnEnabled()
        assert logs.getLogger(name).isErrorEnabled()


def test_a_lost_query_is_restarted(tmp_path: Path, log: Log) -> None:
    log.create_topic("in", 1)
    place = tmp_path / "a place"
    app = make(tmp_path, "again", **{"restart.backoff.ms": 10, "checkpoint.location": f"file://{place}"})
    app.stream("in", value=str).group_by_key().count(store="counts").to_stream().to("out")

    def has(count: int) -> bool:
        return len(values(log, "out")) == count

    states: list[State] = []
    with app.start(on_state_change=lambda new, _old: states.append(new)) as handle:
        for number in range(1, 4):
            log.produce("in", [ProducerRecord(b"k", b"v")])
            until(partial(has, number), handle)
            assert values(log, "out")[-1] == number.to_bytes(8, "big")
            if number < 3:  # the process that plans batches for Spark
                _kill_own("python_streaming_source_runner")
    assert (place / "commits" / "2").exists()
    assert states == [*[State.STARTING, State.RUNNING] * 3, State.PENDING_SHUTDOWN, State.NOT_RUNNING]


def test_the_hint_names_the_log_of_spark_when_spark_stops_the_query(tmp_path: Path, log: Log) -> None:
    log.create_topic("in", 1)
    app = make(tmp_path, "stopped", **{"restart.max.attempts": 0})
    app.stream("in", value=str).to("out")
    handle = app.start()
    log.produce("in", [ProducerRecord(b"k", b"v")])
    until(lambda: len(values(log, "out")) == 1, handle)
    _kill_own("python_streaming_source_runner")
    with pytest.raises(RunError, match="Spark stopped the query: a Python process of Spark's has ended") as caught:
        handle.wait(120)
    assert caught.value.hint is not None
    path = Path(caught.value.hint.removeprefix("look at "))
    assert path.name == "spark.log"
    assert path.exists()


def _kill_own(word: str) -> None:
    """Kills the child processes whose command contains a word."""
    for process in below(os.getpid()):
        if word in process.command:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def test_a_with_block_raises_the_failure_of_its_application(tmp_path: Path, log: Log) -> None:
    log.create_topic("in", 1)
    log.produce("in", [ProducerRecord(b"k", b"v")])
    app = make(tmp_path, "hidden")
    app.stream("in", value=str).map_values(int).to("out")

    def block() -> None:
        with app.start() as handle:
            assert handle.wait(120, check=False)

    with pytest.raises(ProcessingError, match="invalid literal"):
        block()


def test_an_application_can_be_started_after_a_test_driver_ran_it(tmp_path: Path, log: Log) -> None:
    @dataclass
    class Reading:  # sent by value, like the classes of a script
        temperature: float

    log.create_topic("in", 1)
    app = make(tmp_path, "tried")
    app.stream("in", value=Reading).group_by_key().reduce(lambda _old, new: new, store="last").to_stream().to("out")
    with Driver(app) as driver:  # it deserializes and serializes the dataclass
        driver.input("in").pipe("k", Reading(1.5))
    log.produce("in", [ProducerRecord(b"k", b'{"temperature": 2.5}')])
    app.run(until_caught_up=True)
    assert values(log, "out") == [b'{"temperature":2.5}']


def test_an_application_that_needs_state_for_the_first_time_continues_after_a_migration(
    tmp_path: Path, log: Log
) -> None:
    """The application refuses the start: Spark rejects a checkpoint of a query without a stateful operator.

    Catching up does not wait for a topic that is read from its end, or for a partition without records.
    """
    log.create_topic("in", 1)
    log.create_topic("past", 1)
    log.produce("past", [ProducerRecord(b"k", b"0")])

    def app(*, counted: bool) -> App:
        grown = make(tmp_path, "grown")
        stream = grown.stream("in", key=str, value=str)
        stream.to("out")
        if counted:
            stream.group_by_key().count(store="counts")
            grown.stream("past", key=str, value=str, offset_reset="latest").to("out")
        return grown

    log.produce("in", [ProducerRecord(b"k", b"1")])
    app(counted=False).run(until_caught_up=True)
    log.produce("in", [ProducerRecord(b"k", b"2")])
    with pytest.raises(IncompatibleTopologyError, match=r"and in-count .* needs state"):
        app(counted=True).run(until_caught_up=True)
    migrate(app(counted=True))
    log.add_partitions("in", 2)
    app(counted=True).run(until_caught_up=True)
    assert values(log, "out") == [b"1", b"2"]
    assert app(counted=True).store("counts").get("k") == 1
