"""Starts Spark, quietly and on the loopback interface, with the settings that short batches need."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import shlex
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millstream.config import refuse_speculation
from millstream.errors import SetupError
from millstream.log.opening import LogLocation
from millstream.runtime.host.process_identity import is_left_behind, owner_record
from millstream.runtime.spark.archive import java_options
from millstream.runtime.spark.interpreter import check_interpreter, check_interpreter_of
from millstream.runtime.spark.java import check_java, keep_quiet, launch_java
from millstream.runtime.start.checkpoint import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWNER = "owner"
_EXECUTOR_SECONDS = 8.0
"""How long the first executor of a cluster is waited for."""

_STATE_SERVER = "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer"
_PREFIX = "org.apache.spark.sql.execution.streaming"

_STATIC = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",  # where Spark runs in this process, all of it is there
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "millstream.runtime.spark.daemon",
    "spark.executorEnv.PYTHONHASHSEED": "0",
    "spark.locality.wait": "0",
    "spark.speculation": "false",
    "spark.sql.catalogImplementation": "in-memory",
}
"""For a session of our own. They cannot be changed once Spark runs."""

_JVM = [
    "-Xss4m",
    "-XX:+UseSerialGC",
    # Little of the work is done in Java; to compile it as well as Java can would take longer than it saves.
    "-XX:TieredStopAtLevel=1",
    # Hadoop starts a process to set the permissions of each file of a checkpoint.
    "-Djdk.lang.Process.launchMechanism=VFORK",
]

_QUERY = {
    "spark.sql.streaming.stateStore.providerClass": f"{_PREFIX}.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.pollingDelay": "5ms",
    "spark.sql.streaming.stopTimeout": "2s",  # the user waits, and what goes on after that cannot publish
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",  # else sources have a daemon of their own
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}
"""For each query, in a session of its own: nobody else's queries are changed."""

_LOCAL = {
    "spark.sql.streaming.checkpointFileManagerClass": f"{_PREFIX}.checkpointing.FileSystemBasedCheckpointFileManager",
}
"""For checkpoints on a local disk, where Hadoop's own way to write a file takes long."""


_importing = threading.Lock()
_starting = threading.Lock()
_started: tuple[Any, Path] | None = None
"""The Spark that was started here, and the file of its log."""


def check_startable(config: Mapping[str, Any]) -> None:
    """Makes sure that Spark can be started, unless it runs in this process already.

    To be called before an application touches anything: who has no Java should know that first.

    Args:
        config: The configuration of the application.

    Raises:
        SetupError: There is no Java that Spark can use, or no Python that its workers can run.
    """
    # Spark cannot run here unless PySpark is imported. Another thread may be importing it: its parts come one by one.
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    if active is None:
        check_java()
        check_interpreter(config)
    elif _started is None or _started[0] is not active:
        check_interpreter_of(active)


def import_pyspark() -> None:
    """Imports PySpark and what uses it.

    Applications that start at once do so one after the other: PySpark's modules import each other in circles, and
    Python then lets a second thread see modules that are not complete.
    """
    with _importing:
        importlib.import_module("millstream.runtime.spark.query")


def open_session(
    config: Mapping[str, Any], directory: Path, checkpoint: str | None = None
) -> tuple[SparkSession, bool]:
    """Returns a session for one query, and whether Spark was started for it.

    An active session of the user's is used, but not changed: the query gets a session of its own beside it.

    Args:
        config: The configuration of the application.
        directory: Its own directory.
        checkpoint: Where its checkpoint is, if not in that.

    Raises:
        ConfigError: The active session cannot be used.
    """
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415  (it takes a second)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    given = {key: str(value) for key, value in config.items() if key.startswith("spark.")}
    with _starting:
        try:
            session, started = SparkSession.active().newSession(), False
        except PySparkRuntimeError:
            session, started = _start(given, directory), True
    keep_quiet(session)
    refuse_speculation(dict(session.sparkContext.getConf().getAll()), "the active Spark session")
    cores = cores_of(session)
    settings = {**_QUERY, "spark.sql.shuffle.partitions": str(min(cores, 8))}
    if checkpoint is None or local_path(checkpoint) is not None:
        settings |= _LOCAL
    for key, value in {**settings, **{k: v for k, v in given.items() if k.startswith("spark.sql.")}}.items():
        session.conf.set(key, value)
    return session, started


def where_to_look(session: SparkSession) -> str:
    """What tells more when Spark has failed. Its log is in the directory of the application that started it."""
    if _started is not None and _started[0] is session.sparkContext:
        return f"look at {_started[1]}"
    return "look at the log of the Spark session in which it ran"


def check_reachable(session: SparkSession, place: LogLocation) -> None:
    """Makes sure that the executors can open the log, if it is a file.

    Raises:
        SetupError: They are on other machines.
    """
    context = session.sparkContext
    if str(context.master).startswith("local") or place.cluster is not None:
        return
    count = max(2, cores_of(session))
    missing = context.parallelize(range(count), count).map(lambda _number: _missing(place)).filter(bool).collect()
    if missing:
        raise SetupError(
            f"an executor on {missing[0]} cannot open the log in {place}",
            hint="the embedded log is a file of one machine: run the executors there",
        )


def _missing(place: LogLocation) -> str | None:
    """The name of this machine, if the log is not here."""
    return None if place.views.exists() else socket.gethostname()


def cores_of(session: SparkSession) -> int:
    """How many tasks run at once."""
    return int(session.sparkContext.defaultParallelism)


def executor_cores(session: SparkSession) -> int:
    """How many tasks an executor runs at once: it has as many task hosts, and with fewer they would wait in turn.

    A standalone executor takes all cores of its worker if nothing else is said, and only Spark knows how many these
    are: a worker may offer more or fewer than its machine has. Where they differ, the largest executor counts. On the
    others some hosts then have little to do, which costs less than to have too few.
    """
    context = session.sparkContext
    master = str(context.master)
    if master.startswith("local"):
        return cores_of(session)
    told = context.getConf().get("spark.executor.cores")
    if told:
        return int(told)
    if not master.startswith("spark://"):
        return 1  # as YARN and Kubernetes have it
    deadline = time.monotonic() + _EXECUTOR_SECONDS
    java: Any = context._jsc
    while True:
        found = java.sc().statusStore().executorList(True)  # only those that are there
        most = max((int(found.apply(number).totalCores()) for number in range(found.size())), default=0)
        if most:
            return most
        if time.monotonic() > deadline:  # the cluster is busy: what is there when nothing is known
            return cores_of(session)
        time.sleep(0.1)


def _start(given: Mapping[str, str], directory: Path) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415

    scratch = _scratch(directory.parent.parent / "tmp")
    master = given.get("spark.master", f"local[{os.cpu_count() or 2},4]")
    python = str(_launcher(scratch)) if master.startswith("local") else sys.executable
    settings = {**_STATIC, "spark.local.dir": str(scratch)}
    java = f"-Djava.io.tmpdir={scratch} -Dlog4j2.configurationFile=file:{_logging(directory)} {' '.join(_JVM)}"
    if "spark.driver.extraJavaOptions" in given:
        java += " " + given["spark.driver.extraJavaOptions"]
    if "-XX:ArchiveClassesAtExit" not in java:
        java = " ".join([java, *java_options()])
    if not master.startswith("local"):
        settings.pop("spark.locality.wait")
    name = given.get("spark.app.name", "millstream")
    options = {"spark.master": master, "spark.app.name": name, **settings, **given}
    options["spark.driver.extraJavaOptions"] = java
    environment = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    with _environment(environment):
        try:
            launch_java(options, directory / "spark.err", scratch)
        finally:
            # Not before: a Java that starts while this process ends, and cannot write what it has to, never ends.
            atexit.register(shutil.rmtree, scratch, ignore_errors=True)
        builder = SparkSession.builder
        for key, value in options.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    global _started  # noqa: PLW0603  (one process has one Spark)
    _started = (session.sparkContext, directory / "spark.log")
    session.sparkContext.setLogLevel(given.get("spark.log.level", "WARN"))
    # Spark has a daemon for each environment. Sources never get this one; operators must not, or there are two.
    session.sparkContext.environment.clear()
    threading.Thread(target=_warm_up, args=(session,), name="millstream-warm-up", daemon=True).start()
    return session


def _warm_up(session: SparkSession) -> None:
    """Has Spark start its Python daemon while the query is put together."""
    with contextlib.suppress(Exception):
        session.sparkContext.parallelize([0], 1).map(_same).collect()


def _same(number: int) -> int:
    return number


def _scratch(base: Path) -> Path:
    """Makes a directory for what Spark keeps while it runs, and removes those of processes that are gone."""
    base.mkdir(mode=0o700, exist_ok=True)
    for old in base.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it is being made, or removed
            if is_left_behind(int(old.name), (old / _OWNER).read_text(encoding="ascii")):
                shutil.rmtree(old, ignore_errors=True)
    own = base / str(os.getpid())
    own.mkdir(mode=0o700, exist_ok=True)
    (own / _OWNER).write_text(owner_record(os.getpid()), encoding="ascii")
    return own


def _launcher(scratch: Path) -> Path:
    """A Python for Spark's processes that imports PySpark from where it is installed.

    Spark puts a zip file of PySpark before everything else. Nothing in it is compiled, so that each of the eight
    processes of a query would take a second longer to start. Strings hash alike in all of them: a function that goes
    through a set must give the same when its batch is run again.
    """
    path = scratch / "python"
    path.write_text(
        "#!/bin/sh -f\n"
        "path=\n"
        "IFS=:\n"
        "for one in $PYTHONPATH; do\n"
        "  case $one in */pyspark/python/lib/*.zip) ;; *) path=${path:+$path:}$one ;; esac\n"
        "done\n"
        "export PYTHONPATH=$path PYTHONHASHSEED=${PYTHONHASHSEED:-0}\n"
        f'exec {shlex.quote(sys.executable)} "$@"\n',
        encoding="utf-8",
    )
    path.chmod(0o700)
    return path


@contextlib.contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets what is not set in the environment, for as long as it takes to start Spark."""
    own = [name for name in wanted if name not in os.environ]
    os.environ.update({name: wanted[name] for name in own})
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)


def _logging(directory: Path) -> Path:
    """Sends Spark's own log to a file of bounded size, where it can be read and is not in the way.

    RocksDB would write its warnings to it from threads of its own, and each time become a thread of Java's: while Java
    ends, both wait for each other forever. So it tells of errors only.
    """
    path = directory / "log4j2.properties"
    path.write_text(
        "\n".join(
            [
                "status = off",
                "rootLogger.level = warn",
                "rootLogger.appenderRef.file.ref = file",
                "appender.file.type = RollingFile",
                "appender.file.name = file",
                f"appender.file.fileName = {directory / 'spark.log'}",
                f"appender.file.filePattern = {directory / 'spark.%i.log'}",
                "appender.file.layout.type = PatternLayout",
                "appender.file.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex",
                "appender.file.policies.type = Policies",
                "appender.file.policies.size.type = SizeBasedTriggeringPolicy",
                "appender.file.policies.size.size = 10MB",
                "appender.file.strategy.type = DefaultRolloverStrategy",
                "appender.file.strategy.max = 2",
                f"logger.state.name = {_STATE_SERVER}",
                "logger.state.level = error",
                f"logger.stores.name = {_PREFIX}.state",
                "logger.stores.level = error",
                "",
            ]
        ),
        encoding="utf-8",
    )
    return path
