"""The Java that runs a broker, and the class archive that shortens its start."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from millstream.dev.jars import cache
from millstream.errors import SetupError


def java_command(what: str = "a Kafka broker") -> str:
    """Returns the path of Java: that of JAVA_HOME, else the one on the PATH.

    Raises:
        SetupError: There is none.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        hint = "install a JDK or JRE; millstream doctor shows how"
        raise SetupError(f"{what} needs Java 17 or later, and there is none {where}", hint=hint)
    return java


def archive_options(new_archive: Path) -> list[str]:
    """Returns options that load classes from the shared archive, or write a new archive at exit if there is none."""
    shared = shared_archive()
    option = f"SharedArchiveFile={shared}" if shared.exists() else f"ArchiveClassesAtExit={new_archive}"
    return [f"-XX:{option}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def shared_archive() -> Path:
    """Returns the path of the class archive that all brokers share."""
    return cache() / "classes.jsa"
