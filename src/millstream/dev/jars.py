"""Brings the jars of a Kafka broker to this machine, by Maven, once."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

from millstream.errors import SetupError

KAFKA = "4.3.1"

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")  # Maven begins with some, even where there is no terminal
_POM = f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>millstream</groupId>
  <artifactId>broker</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


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
    folder = cache()
    jars = folder / "jars"
    if jars.exists():
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError("a Kafka broker comes by Maven, and there is no mvn on the PATH", hint="install Maven")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.exists():
            _copy(maven, folder, jars)
    return jars


def _copy(maven: str, folder: Path, jars: Path) -> None:
    pom, part = folder / "pom.xml", folder / "jars.part"
    shutil.rmtree(part, ignore_errors=True)
    pom.write_text(_POM, encoding="utf-8")
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
