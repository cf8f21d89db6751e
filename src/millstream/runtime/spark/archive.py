"""An archive of the Java classes that an application loads: with it, Spark starts in half the time.

Java can keep classes as it has them in memory, and map them when it starts again. The archive is made once for each
Java and each PySpark, by ``python -m millstream.runtime.spark.archive``; without it, or if it does not fit, all works
the same, just later. It takes some 200 MB in the user's cache directory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from millstream.text.escaping import error_text

_RECORDS = 100
_FORGOTTEN = 90 * 24 * 3600.0


def find_java() -> str | None:
    """The Java that Spark will use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return java if java is not None and Path(java).exists() else None


def archive_path() -> Path | None:
    """Where the archive for this Java and this PySpark is, or would be; None if there is no Java."""
    java, pyspark = find_java(), find_spec("pyspark")
    if java is None or pyspark is None or pyspark.origin is None:
        return None
    parts = [Path(java).resolve(), Path(pyspark.origin).resolve()]
    facts = [f"{part} {part.stat().st_size} {part.stat().st_mtime_ns}" for part in parts]
    name = hashlib.blake2b("\n".join(facts).encode(), digest_size=8).hexdigest()
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(cache) / "millstream" / f"spark-{name}.jsa"


def java_options() -> list[str]:
    """What Java has to be told to use the archive, if there is one."""
    path = archive_path()
    return [f"-XX:SharedArchiveFile={path}"] if path is not None and path.exists() else []


def make() -> None:
    """Makes the archive, unless there is one: runs a small application, and has Java keep what it loaded."""
    path = archive_path()
    if path is None or path.exists():
        return
    sys.stderr.write("Preparing Spark, once: this may take a minute\n")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            _run(directory, part)
        if part.exists():
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    for old in path.parent.glob("spark-*.jsa"):
        if time.time() - old.stat().st_mtime > _FORGOTTEN:
            old.unlink(missing_ok=True)


def _run(directory: str, archive: Path) -> None:
    from pyspark import SparkContext  # noqa: PLC0415  (only who makes the archive needs it)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from millstream.dsl.app import App  # noqa: PLC0415
    from millstream.log import ProducerRecord, open_log  # noqa: PLC0415

    with open_log(directory) as log:
        log.create_topic("lines", 2)
        log.produce("lines", [ProducerRecord(str(n).encode(), b'"a b"') for n in range(_RECORDS)])
    options = f"-XX:ArchiveClassesAtExit={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
    config = {"state.dir": directory, "status": "none", "spark.driver.extraJavaOptions": options}
    app = App("archive", config=config)
    counts = app.stream("lines", value=str).flat_map_values(str.split).group_by(lambda _key, word: word).count()
    counts.to_stream().to("counts")
    app.run(until_caught_up=True)
    SparkSession.active().stop()
    java: subprocess.Popen[bytes] = SparkContext._gateway.proc  # type: ignore[union-attr]  # it has no other name
    assert java.stdin is not None
    java.stdin.close()  # upon which it ends, and writes the archive
    java.wait()


if __name__ == "__main__":
    try:
        make()
    except Exception as error:  # noqa: BLE001  (it is a matter of seconds, not of working or not)
        sys.stderr.write(f"no class archive was made, Spark will start more slowly: {error_text(error)}\n")
