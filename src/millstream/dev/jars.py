"""Downloads jars and other artifacts with Maven, once."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

from millstream.errors import SetupError

KAFKA = "4.3.1"

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")  # Maven prints some even without a terminal
_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>millstream</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_BROKER = ("org.apache.kafka:kafka_2.13", "org.slf4j:slf4j-simple:1.7.36")


def cache(name: str = f"kafka-{KAFKA}") -> Path:
    """Returns a folder of the cache: its contents can be downloaded again."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "millstream" / name


def has_jars() -> bool:
    """Whether the jars have been downloaded."""
    return (cache() / "jars").exists()


def download_jars() -> Path:
    """Returns the folder of the jars. The first call downloads them; concurrent calls wait for it.

    Raises:
        SetupError: Maven is missing, or the download fails.
    """
    return copy_jars(cache(), *_BROKER)


def copy_jars(folder: Path, *names: str) -> Path:
    """Downloads jars and their dependencies to a folder, once.

    Args:
        folder: The parent of the folder ``jars``.
        *names: Maven coordinates (group:artifact:version) of each jar; Kafka's own jars without the version.

    Raises:
        SetupError: Maven is missing, or the download fails.
    """
    jars = folder / "jars"
    if jars.exists():
        return jars
    maven = _maven("Kafka")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.exists():
            _copy(maven, folder, jars, names)
    return jars


def _copy(maven: str, folder: Path, jars: Path, names: Iterable[str]) -> None:
    pom, part = folder / "pom.xml", folder / "jars.part"
    shutil.rmtree(part, ignore_errors=True)
    coordinates = [(*name.split(":"), KAFKA)[:3] for name in names]
    dependencies = "".join(_DEPENDENCY.format(*jar) for jar in coordinates)
    pom.write_text(_POM.format(dependencies=dependencies), encoding="utf-8")
    goal = [f"{_PLUGIN}:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={part}"]
    _run([maven, "-q", "-B", "-ntp", "-f", str(pom), *goal], folder, f"Kafka {KAFKA}")
    part.rename(jars)


def unpack_archive(folder: Path, artifact: str, what: str) -> Path:
    """Downloads a tar archive, and unpacks it to a folder, once.

    Args:
        folder: The parent of the folder ``unpacked``.
        artifact: Maven coordinates: group:artifact:version:packaging:classifier.
        what: What it is, in an error.

    Raises:
        SetupError: Maven is missing, or the download fails.
    """
    unpacked = folder / "unpacked"
    if unpacked.exists():
        return unpacked
    maven = _maven(what)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not unpacked.exists():
            _unpack(maven, folder, unpacked, artifact, what)
    return unpacked


def _unpack(maven: str, folder: Path, unpacked: Path, artifact: str, what: str) -> None:
    download, part = folder / "download", folder / "unpacked.part"
    shutil.rmtree(download, ignore_errors=True)
    shutil.rmtree(part, ignore_errors=True)
    goal = [f"{_PLUGIN}:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={download}"]
    _run([maven, "-q", "-B", "-ntp", *goal], folder, what)
    (archive,) = download.iterdir()
    with tarfile.open(archive) as content:
        content.extractall(part, filter="data")
    shutil.rmtree(download)
    part.rename(unpacked)


def _maven(what: str) -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError(f"{what} is downloaded with Maven, and there is no mvn on the PATH", hint="install Maven")
    return maven


def _run(command: list[str], folder: Path, what: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603  (the user's own Maven)
    if done.returncode:
        lines = _ESCAPE.sub("", f"{done.stdout}\n{done.stderr}").splitlines()
        messages = (line.removeprefix("[ERROR]").removesuffix("-> [Help 1]").strip() for line in lines)
        raise SetupError(
            f"Maven cannot download {what}: {next(filter(None, messages), 'it printed no error')}",
            hint="check that this machine reaches Maven Central, and check ~/.m2/settings.xml",
        )
