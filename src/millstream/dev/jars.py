"""Downloads the jars of Kafka with Maven, once."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from millstream.errors import SetupError

KAFKA = "4.3.1"

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
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


def cache() -> Path:
    """Returns the cache directory: its contents can be downloaded again."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "millstream" / f"kafka-{KAFKA}"


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
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError("Kafka is downloaded with Maven, and there is no mvn on the PATH", hint="install Maven")
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
    command = [maven, "-q", "-B", "-ntp", "-f", str(pom), _PLUGIN, "-DincludeScope=runtime"]
    done = subprocess.run(  # noqa: S603  (the user's own Maven)
        [*command, f"-DoutputDirectory={part}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = _ESCAPE.sub("", f"{done.stdout}\n{done.stderr}").splitlines()
        messages = (line.removeprefix("[ERROR]").removesuffix("-> [Help 1]").strip() for line in lines)
        raise SetupError(
            f"Maven cannot download Kafka {KAFKA}: {next(filter(None, messages), 'it printed no error')}",
            hint="check that this machine reaches Maven Central, and check ~/.m2/settings.xml",
        )
    part.rename(jars)
