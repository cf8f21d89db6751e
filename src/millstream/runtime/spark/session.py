"""Opens sessions of Spark: on the loopback interface, with settings for short batches, and with its log in a file."""

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
from millstream.runtime.spark.java import check_java, is_stopped, keep_quiet, launch_java
from millstream.runtime.start.checkpoint import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWNER = "owner"
_EXECUTOR_SECONDS = 8.0
"""Time to wait for the first executor of a cluster."""

_STATE_SERVER = "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer"
_PREFIX = "org.apache.spark.sql.execution.streaming"

_STATIC = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",  # with a local master, executors share it
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "millstream.runtime.spark.daemon",
    "spark.executorEnv.PYTHONHASHSEED": "0",
    "spark.locality.wait": "0",
    "spark.speculation": "false",
    "spark.sql.catalogImplementation": "in-memory",
}
"""Settings for a session that Millstream starts. They cannot be changed once Spark runs."""

_JVM = [
    "-Xss4m",
    "-XX:+UseSerialGC",
    # Little of the work is done in Java: the optimising compiler would cost more than it saves.
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
    "spark.sql.streaming.stopTimeout": "2s",  # the user waits, and a batch that runs on cannot publish
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",  # else sources have a daemon of their own
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}
"""Settings for each query, which has a session of its own: other queries are not affected."""

_LOCAL = {
    "spark.sql.streaming.checkpointFileManagerClass": f"{_PREFIX}.checkpointing.FileSystemBasedCheckpointFileManager",
}
"""Settings for checkpoints on a local disk, where the default of Hadoop writes files slowly."""


_importing = threading.Lock()
_starting = threading.Lock()
_started: tuple[Any, Path] | None = None
"""The context of the Spark that this module started, and the file of its log."""


def check_startable(config: Mapping[str, Any]) -> None:
    """Checks that Spark can be started, unless it runs in this process already.

    It is called before an application changes anything, so that a missing Java is the first error.

    Args:
        config: The configuration of the application.

    Raises:
        SetupError: There is no Java that Spark can use, or no Python that its workers can run.
    """
    # Spark cannot run here unless PySpark is imported. Another thread may be importing it, so parts may be missing.
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    if active is None:
        check_java()
        check_interpreter(config)
    elif (_started is None or _started[0] is not active) and hasattr(active, "pythonExec"):
        # Without this attribute, another thread is making the context here, and has checked the interpreter.
        check_interpreter_of(active)


def known_context() -> Any:
    """The active context of Spark, else the last one that was started here; None without any."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    return active if active is not None or _started is None else _started[0]


def import_pyspark() -> None:
    """Imports PySpark and the modules that use it.

    A lock serialises applications that start at the same time: the modules of PySpark import each other in cycles, and
    a second thread would see incomplete modules.
    """
    with _importing:
        importlib.import_module("millstream.runtime.spark.query")


def open_session(
    config: Mapping[str, Any], directory: Path, checkpoint: str | None = None
) -> tuple[SparkSession, bool]:
    """Returns a session for one query, and whether Spark was started for it.

    If a session is active, the query gets a new session of the same Spark. The active one is not changed.

    Args:
        config: The configuration of the application.
        directory: Its own directory.
        checkpoint: Location of its checkpoint, if not in the directory.

    Raises:
        ConfigError: The active session cannot be used.
    """
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415  (it takes a second)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    configured = {key: str(value) for key, value in config.items() if key.startswith("spark.")}
    with _starting:
        try:
            active: SparkSession | None = SparkSession.active()
        except PySparkRuntimeError:
            active = None
        if active is None or is_stopped(active.sparkContext):  # a context can be stopped without its session
            session, started = _start(configured, directory), True
        else:
            session, started = active.newSession(), False
    keep_quiet(session)
    refuse_speculation(dict(session.sparkContext.getConf().getAll()), "the active Spark session")
    cores = cores_of(session)
    settings = {**_QUERY, "spark.sql.shuffle.partitions": str(min(cores, 8))}
    if checkpoint is None or local_path(checkpoint) is not None:
        settings |= _LOCAL
    for key, value in {**settings, **{k: v for k, v in configured.items() if k.startswith("spark.sql.")}}.items():
        session.conf.set(key, value)
    return session, started


def where_to_look(session: SparkSession) -> str:
    """A hint for failures of Spark. Its log is in the directory of the application that started it."""
    if _started is not None and _started[0] is session.sparkContext:
        return f"look at {_started[1]}"
    return "look at the log of the Spark session in which it ran"


def check_reachable(session: SparkSession, place: LogLocation) -> None:
    """Checks that the executors can open the log, if it is a file.

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
    """The name of this machine, if the log does not exist on it."""
    return None if place.views.exists() else socket.gethostname()


def cores_of(session: SparkSession) -> int:
    """Number of Spark tasks that run at the same time."""
    return int(session.sparkContext.defaultParallelism)


def executor_cores(session: SparkSession) -> int:
    """Number of Spark tasks that an executor runs at the same time. It has as many task hosts.

    A standalone executor takes all cores of its worker by default. Only Spark reports how many these are: a worker may
    offer more or fewer than its machine has. If executors differ, the largest counts: idle hosts on the others cost
    less than too few hosts.
    """
    context = session.sparkContext
    master = str(context.master)
    if master.startswith("local"):
        return cores_of(session)
    configured = context.getConf().get("spark.executor.cores")
    if configured:
        return int(configured)
    if not master.startswith("spark://"):
        return 1  # the default of YARN and Kubernetes
    deadline = time.monotonic() + _EXECUTOR_SECONDS
    java: Any = context._jsc
    while True:
        executors = java.sc().statusStore().executorList(True)  # active ones only
        most = max((int(executors.apply(number).totalCores()) for number in range(executors.size())), default=0)
        if most:
            return most
        if time.monotonic() > deadline:  # the cluster is busy
            return cores_of(session)
        time.sleep(0.1)


def _start(configured: Mapping[str, str], directory: Path) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415

    scratch = _scratch(directory.parent.parent / "tmp")
    master = configured.get("spark.master", f"local[{os.cpu_count() or 2},4]")
    python = str(_launcher(scratch)) if master.startswith("local") else sys.executable
    settings = {**_STATIC, "spark.local.dir": str(scratch)}
    java = f"-Djava.io.tmpdir={scratch} -Dlog4j2.configurationFile=file:{_logging(directory)} {' '.join(_JVM)}"
    if "spark.driver.extraJavaOptions" in configured:
        java += " " + configured["spark.driver.extraJavaOptions"]
    if "-XX:ArchiveClassesAtExit" not in java:
        java = " ".join([java, *java_options()])
    if not master.startswith("local"):
        settings.pop("spark.locality.wait")
    name = configured.get("spark.app.name", "millstream")
    options = {"spark.master": master, "spark.app.name": name, **settings, **configured}
    options["spark.driver.extraJavaOptions"] = java
    environment = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    with _environment(environment):
        try:
            launch_java(options, directory / "spark.err", scratch)
        finally:
            # Not before: a Java that cannot write its files while this process ends would hang.
            atexit.register(shutil.rmtree, scratch, ignore_errors=True)
        builder = SparkSession.builder
        for key, value in options.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    global _started  # noqa: PLW0603  (one process has one Spark)
    _started = (session.sparkContext, directory / "spark.log")
    session.sparkContext.setLogLevel(configured.get("spark.log.level", "WARN"))
    # Spark starts one daemon per environment. Sources have an empty one, so operators must, too.
    session.sparkContext.environment.clear()
    threading.Thread(target=_warm_up, args=(session,), name="millstream-warm-up", daemon=True).start()
    return session


def _warm_up(session: SparkSession) -> None:
    """Makes Spark start its Python daemon while the query is built."""
    with contextlib.suppress(Exception):
        session.sparkContext.parallelize([0], 1).map(_same).collect()


def _same(number: int) -> int:
    return number


def _scratch(base: Path) -> Path:
    """Creates a directory for temporary files of Spark, and removes those of processes that have ended."""
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
    """A launcher of Python for the processes of Spark, which imports PySpark from its installation.

    Spark puts a zip file of PySpark first on the path. It contains no compiled modules, so each of the eight processes
    of a query would start a second later. The hash seed is fixed: a function that iterates over a set must return the
    same in a replay.
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
    """Sets environment variables that are not set, while Spark starts."""
    own = [name for name in wanted if name not in os.environ]
    os.environ.update({name: wanted[name] for name in own})
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)


def _logging(directory: Path) -> Path:
    """Configures the log of Spark: a file of bounded size.

    RocksDB logs from native threads, which attach to the JVM for each message. At the end of the JVM that can deadlock,
    so only errors are logged.
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
