"""The Java process in which Spark runs: checks Java, starts the process, and detects its end."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from millstream.errors import SetupError
from millstream.runtime.spark.archive import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA = 17
_END_SECONDS = 2.0
"""Time that the process may take to end after its connections are closed."""


def check_java() -> None:
    """Checks that there is a Java that Spark can use.

    Raises:
        SetupError: There is none, or it is too old; the hint says how to install one.
    """
    home, java = os.environ.get("JAVA_HOME"), find_java()
    hint = f"install Java {_JAVA} or later: {_install_command()}"
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        if home and shutil.which("java"):
            hint = "JAVA_HOME is wrong: correct it, or unset it, to use the one on the PATH"
        raise SetupError(f"Spark needs Java {_JAVA} or later, and there is none {where}", hint=hint)
    output = subprocess.run(  # noqa: S603  (the user's own Java)
        [java, "-version"], capture_output=True, text=True, check=False
    )
    version = re.search(r'version "(?:1\.)?(\d+)', output.stderr + output.stdout)
    if version is None or int(version.group(1)) < _JAVA:
        said = "has no version that can be read" if version is None else f"is version {version.group(1)}"
        raise SetupError(f"Spark needs Java {_JAVA} or later, and {java} {said}", hint=hint)


def _install_command() -> str:
    if sys.platform == "darwin":
        return "brew install openjdk@17"
    for program, command in {
        "apt-get": "sudo apt-get install openjdk-17-jre-headless",
        "dnf": "sudo dnf install java-17-openjdk-headless",
        "apk": "sudo apk add openjdk17-jre-headless",
        "pacman": "sudo pacman -S jre17-openjdk-headless",
    }.items():
        if shutil.which(program):
            return command
    return "from adoptium.net, or by your system's package manager"


def launch_java(options: Mapping[str, str], errors: Path, scratch: Path) -> None:
    """Starts the Java process, unless an earlier Spark of this process has left one.

    Java and the Python processes that it starts write their standard error to a file. The standard error of this
    process is not redirected: tracebacks of user threads must reach the terminal.

    Args:
        options: The settings of Spark.
        errors: The file for the standard error.
        scratch: Directory for temporary files of PySpark while Java starts.

    Raises:
        SetupError: Java ended at once.
    """
    from pyspark import SparkConf, SparkContext, java_gateway  # noqa: PLC0415  (it takes a second)
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415

    if SparkContext._gateway is not None:
        return
    conf = SparkConf().setAll(list(options.items()))
    with open(errors, "wb", opener=_private) as file:
        try:
            # A killed start would leave a directory among the temporary files of the system.
            java_gateway.tempfile = _TemporaryIn(scratch)  # type: ignore[assignment, attr-defined]
            with _sigint_blocked():
                gateway = java_gateway.launch_gateway(conf, {"stderr": file})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            lines = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            said = lines[-1] if lines else "it did not say why"
            raise SetupError(f"Spark's Java process ended at once: {said}", hint=f"look at {errors}") from error
        finally:
            java_gateway.tempfile = tempfile  # type: ignore[attr-defined]
    SparkContext._ensure_initialized(gateway=gateway)


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Blocks SIGINT in this thread. PySpark has the forked child ignore SIGINT, and Ctrl-C could come before that."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _TemporaryIn(NamedTuple):
    """Makes temporary files as `tempfile` does, in another directory."""

    directory: Path

    def mkdtemp(self) -> str:
        return tempfile.mkdtemp(dir=self.directory)

    def mkstemp(self, dir: str) -> tuple[int, str]:
        return tempfile.mkstemp(dir=dir)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def has_ended() -> bool:
    """Whether the Java process of Spark has ended. Call it after a connection was lost."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is None:
        return False
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def is_stopped(context: Any) -> bool:
    """Whether a context of Spark was stopped, by the program or by Spark itself. Call it after an error."""
    java = getattr(context, "_jsc", None)
    if java is None:  # as `stop` leaves it
        return True
    try:
        return bool(java.sc().isStopped())
    except Exception:  # noqa: BLE001  (Py4J raises many kinds; if Java does not answer, `has_ended` tells)
        return getattr(context, "_jsc", None) is None


def keep_quiet(session: SparkSession) -> None:
    """Suppresses tracebacks of PySpark when Java ends or a batch fails: the handle reports the cause."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    if _not_of_py4j not in logging.root.filters:
        logging.root.addFilter(_not_of_py4j)
    server: Any = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        usual = type(server).handle_error

        def handle_error(request: Any, address: Any) -> None:
            if not isinstance(sys.exception(), EOFError | ConnectionError):
                usual(server, request, address)

        server.handle_error = handle_error


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs lost connections with the root logger."""
    return Path(record.pathname).parent.name != "py4j"
