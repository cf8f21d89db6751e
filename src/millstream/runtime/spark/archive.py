"""The archive of the Java classes that an application loads. With it, Spark starts in half the time.

Java maps the classes of the archive into memory instead of loading and checking them. `millstream.dev.class_archive`
makes one for each Java and each PySpark; without it, or if it does not fit, Spark starts more slowly.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from importlib.util import find_spec
from pathlib import Path


def find_java() -> str | None:
    """The Java that Spark will use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return java if java is not None and Path(java).exists() else None


def archive_path() -> Path | None:
    """The path of the archive for this Java and this PySpark; None if there is no Java."""
    java, pyspark = find_java(), find_spec("pyspark")
    if java is None or pyspark is None or pyspark.origin is None:
        return None
    parts = [Path(java).resolve(), Path(pyspark.origin).resolve()]
    facts = [f"{part} {part.stat().st_size} {part.stat().st_mtime_ns}" for part in parts]
    name = hashlib.blake2b("\n".join(facts).encode(), digest_size=8).hexdigest()
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(cache) / "millstream" / f"spark-{name}.jsa"


def java_options() -> list[str]:
    """The options with which Java uses the archive, if there is one."""
    path = archive_path()
    return [f"-XX:SharedArchiveFile={path}"] if path is not None and path.exists() else []
