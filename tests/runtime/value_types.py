"""Runs the script with all kinds of value types, defined in it, beside it, and in an installed package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.runtime.kinds import KINDS, Kind

from millstream.serde import LONG, serde_for

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FUTURE = "from __future__ import annotations\n"

PLACES = ("script", "beside", "installed")
Topics = dict[str, list[tuple[str, str]]]
Results = dict[str, Topics]


def expected(kind: Kind) -> tuple[list[str], list[tuple[str, str]]]:
    """The expected output for a value type: the last value of the key, and the count of each value, as text."""
    serde = serde_for(kind.type)
    last: list[str] = []
    counts: list[tuple[str, str]] = []
    kept: bytes | None = None
    seen: Counter[bytes] = Counter()
    for record in [*kind.records, *kind.records]:
        value = serde.deserialize(record)
        kept = serde.serialize(value if kept is None else kind.change(value))
        last.append(text(serde.serialize(kind.change(serde.deserialize(kept)))))
        changed = serde.serialize(kind.change(value)) or b""
        seen[changed] += 1
        counts.append((text(changed), text(LONG.serialize(seen[changed]))))
    return last, counts


def check(topics: Topics, place: str, name: str) -> None:
    """Asserts that a value type of a place has the expected output, and one dead letter."""
    last, counts = expected(KINDS[name])
    assert [value for _key, value in topics[f"{place}.{name}.last"]] == last, f"{place}.{name}"
    assert topics[f"{place}.{name}.counts"] == counts, f"{place}.{name}"
    letters = [value for key, value in topics["dead"] if key == f"{place}.{name}"]
    assert letters == [KINDS[name].invalid.decode()], f"{place}.{name}"


def text(data: bytes | None) -> str:
    assert data is not None
    return data.decode()


def run_kinds(directory: Path, *ways: str, future: bool = True) -> Results:
    """Returns the records of each topic, by the way in which the application was run.

    Args:
        directory: Where the script and its data are put.
        ways: ``driver``, ``host`` or ``spark``.
        future: Whether annotations are strings.
    """
    kinds, tail = ((HERE / name).read_text(encoding="utf-8") for name in ("kinds.py", "kinds_application.py"))
    if not future:
        kinds = kinds.replace(FUTURE, "")
        for name in ("Rain", "Local", "Node", "Payment", "Point", "Planet", "Cart", "Address"):
            kinds = kinds.replace(f"-> {name}:", f'-> "{name}":').replace(f"[{name}]", f'["{name}"]')
    files = {
        "project/script.py": (FUTURE if future else "") + kinds.replace(FUTURE, "") + tail.replace(FUTURE, ""),
        "project/kinds_beside.py": kinds,
        "library/kinds_installed/__init__.py": "",
        "library/kinds_installed/types.py": kinds,
    }
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    paths = [str(directory / "library"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-W", "error", str(directory / "project" / "script.py"), str(directory), *ways],
        capture_output=True, text=True, check=False, cwd="/", env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    texts = json.loads((directory / "results.json").read_text(encoding="utf-8"))
    return {
        way: {topic: [(key, value) for key, value in records] for topic, records in topics.items()}
        for way, topics in texts.items()
    }
