"""The jars of Spark's connector for Kafka, by Maven."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import pyspark

from millstream.dev.jars import cache

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_SQL, _TOKENS = "org.apache.spark:spark-sql-kafka-0-10_2.13", "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
_OTHERS = ("org.apache.kafka:kafka-clients:3.9.2", "org.apache.commons:commons-pool2:2.13.1")
_RELEASES = ((pyspark.__version__, pyspark.__version__), ("4.2.0", "4.1.0-preview1"))
"""Versions of the connector and its dependencies: that of Spark, else a compatible one."""


def connector_jars() -> list[Path] | str:
    """Downloads the jars once. Returns their paths, or the reason of a failure."""
    folder = cache().parent / f"connector-{pyspark.__version__}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "jars").exists():
            reason = _bring(folder)
            if reason is not None:
                return reason
    return sorted((folder / "jars").glob("*.jar"))


def _bring(folder: Path) -> str | None:
    maven, part = shutil.which("mvn"), folder / "jars.part"
    if maven is None:
        return "Spark's connector comes by Maven, and there is no mvn on the PATH"
    reason = ""
    for release, tokens in _RELEASES:
        shutil.rmtree(part, ignore_errors=True)
        for artifact in (f"{_SQL}:{release}", f"{_TOKENS}:{tokens}", *_OTHERS):
            command = [maven, "-q", "-B", "-ntp", _COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={part}"]
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
            if done.returncode:
                reason = f"Maven cannot bring {artifact}"
                break
        else:
            part.replace(folder / "jars")
            return None
    return reason
