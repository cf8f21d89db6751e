"""`millstream doctor`: checks the prerequisites of Millstream on this machine."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.exits import ExitCode
from millstream.cli.log_access import location_of
from millstream.cli.options import Data, Output
from millstream.cli.printing import print_json
from millstream.core.diagnostics import Check
from millstream.errors import MillstreamError
from millstream.text.escaping import readable
from millstream.text.sizes import show_bytes

if TYPE_CHECKING:
    from millstream.log.opening import Cluster, LogLocation

EXAMPLES = ("millstream doctor", "millstream doctor --output json", "millstream doctor --profile production --probe")

_LITTLE_SPACE = 1 << 30
_NO_SPACE = 100 << 20
_PACKAGES = ("pyspark", "pandas", "pyarrow", "numpy", "msgspec")


def doctor(
    data: Data = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="Write a record to a topic of its own on the cluster, to compare clocks.")
    ] = False,
    output: Output = "table",
) -> None:
    """Checks Python, Java, the libraries, the data directory and the network of this machine.

    Each check reports the actual state and, if there is a problem, a fix. The exit code is 1 if a check fails. Topics
    whose retention may delete records before an application has read them are reported, too.

    On a cluster, it also checks that all brokers are reachable, their release, authentication and authorization, and
    settings of topics that conflict. It writes nothing, unless --probe is given.
    """
    failed = False
    for check in checks(data, probe=probe):
        failed |= check.status == "fail"
        if output == "json":
            print_json(check._asdict())
            continue
        colour = {"ok": "green", "warn": "yellow", "fail": "red"}[check.status]
        typer.echo(f"{typer.style(f'{check.status:<4}', fg=colour, bold=True)}  {check.name}: {readable(check.found)}")
        if check.fix is not None:
            typer.echo(f"      fix: {readable(check.fix)}")
    if failed:
        raise typer.Exit(ExitCode.ERROR)


def checks(data: str | None, *, probe: bool = False) -> Iterator[Check]:
    """Yields the result of each check."""
    yield _python()
    yield _java()
    for name in _PACKAGES:
        yield _package(name)
    from millstream.core.data_directory import FILE_NAME, data_directory

    directory = data_directory(data)
    parts: tuple[Callable[[Path], Check], ...] = (_access, _space)
    for part in parts:
        yield part(directory)
    yield _loopback()
    try:
        location = location_of(data)
    except MillstreamError as error:
        yield Check("cluster", "fail", error.message, error.hint)
        return
    if location.cluster is None:
        yield _format(directory)
        if not (directory / FILE_NAME).exists():
            return
    else:
        healthy = True
        for check in _cluster(location.cluster, probe=probe):
            healthy &= check.status != "fail"
            yield check
        if not healthy:
            return
    yield from _retention(location)


def _retention(location: LogLocation) -> Iterator[Check]:
    from millstream.log.opening import open_location
    from millstream.log.retention_checks import check_retention

    try:
        with open_location(location, create=False) as log:
            if location.cluster is None:
                configs: Mapping[str, Mapping[str, str]] = {topic.name: topic.config for topic in log.topics()}
            else:
                from millstream.log.kafka.health import topic_configs

                configs = topic_configs(location.cluster)
            yield from check_retention(log, configs, int(time.time() * 1000))
    except MillstreamError as error:
        yield Check("retention", "warn", f"it cannot be checked: {error.message}", error.hint)


def _cluster(cluster: Cluster, *, probe: bool) -> Iterator[Check]:
    try:
        from millstream.log.kafka import health
    except ImportError:
        yield Check("confluent-kafka", "fail", "it is not installed", 'pip install "millstream[kafka]"')
        return
    yield health.client()
    yield from health.examine(cluster, probe=probe)


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    workers = os.environ.get("PYSPARK_PYTHON")
    if workers is not None and shutil.which(workers) != sys.executable:
        state = f"{version} ({sys.executable}), but Spark's workers use PYSPARK_PYTHON={workers}"
        return Check("Python", "warn", state, "unset PYSPARK_PYTHON, unless Millstream is installed there, too")
    return Check("Python", "ok", f"{version} ({sys.executable})")


def _java() -> Check:
    home = os.environ.get("JAVA_HOME")
    from millstream.runtime.spark.java import check_java

    try:
        check_java()
    except MillstreamError as error:
        return Check("Java", "fail", error.message, error.hint)
    java = Path(home) / "bin" / "java" if home else shutil.which("java")
    return Check("Java", "ok", f"{java} ({f'JAVA_HOME={home}' if home else 'JAVA_HOME is not set'})")


def _package(name: str) -> Check:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, "fail", "it is not installed", "install Millstream again, with its dependencies")
    required = [text for text in importlib.metadata.requires("millstream") or () if text.startswith(name)]
    if name == "pyspark" and f"=={version}" not in "".join(required):
        return Check(name, "fail", f"{version}, and Millstream needs {required[0]}", f"pip install '{required[0]}'")
    return Check(name, "ok", version)


def _nearest(directory: Path) -> Path:
    """Returns the directory, or its nearest existing parent."""
    return next(path for path in (directory, *directory.parents) if path.exists())


def _access(directory: Path) -> Check:
    name = "data directory"
    nearest = _nearest(directory)
    missing = "" if nearest == directory else ", which will be created"
    if nearest == directory and not directory.is_dir():
        return Check(name, "fail", f"{directory} is a file", "choose another one with --data or MILLSTREAM_DATA")
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        fix = f"give this user write access to {nearest}, or choose another directory with --data or MILLSTREAM_DATA"
        return Check(name, "fail", f"{nearest} cannot be written to: {error.strerror}", fix)
    if directory.exists() and directory.stat().st_mode & 0o077:
        return Check(name, "warn", f"other users can read {directory}", f"chmod 700 {directory}")
    return Check(name, "ok", f"{directory}{missing}")


def _space(directory: Path) -> Check:
    free = shutil.disk_usage(_nearest(directory)).free
    fix = "free disk space, or choose a directory on another disk with --data or MILLSTREAM_DATA"
    if free < _NO_SPACE:
        return Check("disk space", "fail", f"{show_bytes(free)} free", fix)
    if free < _LITTLE_SPACE:
        return Check("disk space", "warn", f"{show_bytes(free)} free", fix)
    return Check("disk space", "ok", f"{show_bytes(free)} free")


def _format(directory: Path) -> Check:
    from millstream.core.data_directory import FILE_NAME
    from millstream.log import open_log

    name = "log"
    if not (directory / FILE_NAME).exists():
        return Check(name, "ok", "there is none yet; the first topic creates it")
    try:
        with open_log(directory, create=False) as log:
            count = len(log.topics())
    except MillstreamError as error:
        return Check(name, "fail", error.message, error.hint)
    return Check(name, "ok", f"{count} topics, {show_bytes((directory / FILE_NAME).stat().st_size)}")


def _loopback() -> Check:
    try:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            with socket.create_connection(listening.getsockname(), timeout=5):
                pass
    except OSError as error:
        fix = "allow programs to listen on and connect to 127.0.0.1: Spark connects to its workers there"
        return Check("loopback", "fail", f"127.0.0.1 cannot be used: {error.strerror or error}", fix)
    return Check("loopback", "ok", "ports of 127.0.0.1 can be bound and reached")
