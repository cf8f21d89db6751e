"""Checks, before Spark starts, that the Python of its workers can run the application."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millstream.errors import SetupError

if TYPE_CHECKING:
    from pyspark import SparkContext

_NEEDED = ("millstream", "pyspark", "pyarrow", "pandas")
_SAME = ("millstream", "pyspark")
"""Packages of which the workers must have the same version."""

_PROBE = """
import importlib.metadata as metadata, importlib.util as util, json, sys
needed, same = sys.argv[1].split(), sys.argv[2].split()
missing = [name for name in needed if util.find_spec(name) is None]
versions = {}
for name in same:
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:  # it is found by its path only
        pass
print(json.dumps({"python": sys.version_info[:2], "missing": missing, "versions": versions}))
"""


def check_interpreter(config: Mapping[str, Any]) -> None:
    """Checks the Python of the workers of a Spark that is to be started.

    It is the running Python, unless ``PYSPARK_PYTHON`` names another. The running one may find modules that its workers
    do not: IPython adds the packages of an active virtual environment in which it is not installed.

    Raises:
        SetupError: It lacks a package, or has another version.
    """
    master = config.get("spark.master")
    if master is not None and not str(master).startswith("local"):
        return  # the workers are elsewhere, and have a Python of their own
    named = os.environ.get("PYSPARK_PYTHON")
    python = named or sys.executable
    if not python:
        raise SetupError("Spark's workers need a Python, and this one has no path", hint="set PYSPARK_PYTHON")
    hint = "unset PYSPARK_PYTHON, or let it name a Python that fits" if named else _start_this_one()
    _check(python, "PYSPARK_PYTHON" if named else "the running Python", _NEEDED, hint)


def check_interpreter_of(context: SparkContext) -> None:
    """Checks the Python of the workers of a Spark that runs in this process already.

    Raises:
        SetupError: It lacks a package, or has another version.
    """
    if str(context.master).startswith("local"):
        needed = tuple(name for name in _NEEDED if name != "pyspark")  # which Spark brings
        hint = f"set PYSPARK_PYTHON={sys.executable} before the session is made"
        _check(str(context.pythonExec), "the active Spark session", needed, hint)


def _check(python: str, whose: str, needed: tuple[str, ...], hint: str) -> None:
    facts = _probe(python, whose, needed, hint)
    workers = f"Spark's workers would run {python} ({whose})"
    own = list(sys.version_info[:2])
    if facts["python"] != own:
        versions = [".".join(map(str, version)) for version in (facts["python"], own)]
        raise SetupError(f"{workers}, which is Python {versions[0]}, and this is Python {versions[1]}", hint=hint)
    if facts["missing"]:
        raise SetupError(f"{workers}, which cannot import {' and '.join(facts['missing'])}", hint=hint)
    for name, version in facts["versions"].items():
        with contextlib.suppress(metadata.PackageNotFoundError):
            own_version = metadata.version(name)
            if own_version != version:
                raise SetupError(f"{workers}, which has {name} {version}, and this has {own_version}", hint=hint)


def _probe(python: str, whose: str, needed: tuple[str, ...], hint: str) -> Any:
    try:
        done = subprocess.run(  # noqa: S603  (the Python that Spark would run)
            [python, "-c", _PROBE, " ".join(needed), " ".join(_SAME)], capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise SetupError(
            f"Spark's workers would run {python} ({whose}), which does not run: {lines[-1] if lines else error}",
            hint=hint,
        ) from error


def _start_this_one() -> str:
    """The hint if modules are found here that the interpreter alone does not find."""
    package = Path(__file__).parents[2]
    active = os.environ.get("VIRTUAL_ENV")
    for folder in (*package.parents, *([Path(active)] if active else [])):
        python = folder / "bin" / "python"
        if (folder / "pyvenv.cfg").exists() and python.exists():
            return (
                f"millstream is installed in {folder}: run {python}, or, for IPython and Jupyter, install them there "
                f"({python} -m pip install ipykernel) and choose its kernel; PYSPARK_PYTHON={python} will do, too"
            )
    return f"install millstream there, or set PYSPARK_PYTHON to a Python that finds it (here it is in {package})"
