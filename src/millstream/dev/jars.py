"""Brings the jars of Kafka to this machine, by Maven, once."""

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
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")  # Maven begins with some, even where there is no terminal
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
    """Where what can be brought again is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "millstream" / f"kafka-{KAFKA}"


def has_jars() -> bool:
    """Whether the jars are on this machine."""
    return (cache() / "jars").exists()


def bring_jars() -> Path:
    """Returns the folder with the jars; the first call brings them. Others that want them meanwhile wait.

    Raises:
        SetupError: There is no Maven, or it cannot bring them.
    """
    return copy_jars(cache(), *_BROKER)


def copy_jars(folder: Path, *names: str) -> Path:
    """Brings jars and those that they need to a folder, once.

    Args:
        folder: Where a folder of them is made.
        *names: Group, artifact and version of each, with colons between them; of Kafka's own without the version.

    Raises:
        SetupError: There is no Maven, or it cannot bring them.
    """
    jars = folder / "jars"
    if jars.exists():
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError("Kafka comes by Maven, and there is no mvn on the PATH", hint="install Maven")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.exists():
            _copy(maven, folder, jars, names)
    return jars


def _copy(maven: str, folder: Path, jars: Path, names: Iterable[str]) -> None:
    pom, part = folder / "pom.xml", folder / "jars.part"
    shutil.rmtree(part, ignore_errors=True)
    parts = [(*name.split(":"), KAFKA)[:3] for name in names]
    pom.write_text(_POM.format(dependencies="".join(_DEPENDENCY.format(*each) for each in parts)), encoding="utf-8")
    command = [maven, "-q", "-B", "-ntp", "-f", str(pom), _PLUGIN, "-DincludeScope=runtime"]
    done = subprocess.run(  # noqa: S603  (the user's own Maven)
        [*command, f"-DoutputDirectory={part}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = _ESCAPE.sub("", f"{done.stdout}\n{done.stderr}").splitlines()
        said = (line.removeprefix("[ERROR]").removesuffix("-> [Help 1]").strip() for line in lines)
        raise SetupError(
            f"Maven cannot bring Kafka {KAFKA}: {next(filter(None, said), 'it says nothing')}",
            hint="see whether this machine reaches Maven Central, and what ~/.m2/settings.xml says",
        )
    part.rename(jars)
