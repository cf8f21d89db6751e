"""Makes the archive of Java classes with which Spark starts in half the time: see `millstream.runtime.spark.archive`.

``python -m millstream.dev.class_archive`` makes it once for each Java and each PySpark. It takes some 200 MB in the
user's cache directory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from millstream.runtime.spark.archive import archive_path
from millstream.text.escaping import error_text

_RECORDS = 100
_UNUSED_SECONDS = 90 * 24 * 3600.0


def make() -> None:
    """Makes the archive, unless it exists: runs a small application, and has Java write the classes that it loaded."""
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
        if time.time() - old.stat().st_mtime > _UNUSED_SECONDS:
            old.unlink(missing_ok=True)


def _run(directory: str, archive: Path) -> None:
    from pyspark import SparkContext  # noqa: PLC0415  (it takes a second)
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
    java: subprocess.Popen[bytes] = SparkContext._gateway.proc  # type: ignore[union-attr]  # there is no public name
    assert java.stdin is not None
    java.stdin.close()  # upon which it ends, and writes the archive
    java.wait()


if __name__ == "__main__":
    try:
        make()
    except Exception as error:  # noqa: BLE001  (without the archive all works, more slowly)
        sys.stderr.write(f"no class archive was made, Spark will start more slowly: {error_text(error)}\n")
