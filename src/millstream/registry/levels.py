"""The compatibility levels of subjects, and the versions that each compares with a new schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millstream.errors import RegistryError, suggestion
from millstream.registry.formats.problems import Finding, Sides

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
DEFAULT = "BACKWARD"
NEW = "the new schema"
_MOST = 100

Compare = Callable[[Any, Any, Sides], list[Finding]]


def check_level(level: str) -> str:
    """Returns the name of a compatibility level in upper case.

    Raises:
        RegistryError: There is no such level.
    """
    name = level.upper()
    if name not in LEVELS:
        hint = suggestion(name, LEVELS) or f"use one of: {', '.join(LEVELS)}"
        raise RegistryError(f"there is no compatibility level {level!r}", hint=hint)
    return name


def find_problems(level: str, new: Any, versions: Sequence[tuple[int, Any]], compare: Compare) -> list[str]:
    """Returns why a schema is not compatible with earlier versions of its subject.

    Args:
        level: The level. The transitive ones compare with all versions, the others with the latest.
        new: The parsed schema.
        versions: The earlier versions, parsed, in ascending order.
        compare: Compares the schema of a reader with that of a writer.
    """
    if level == "NONE" or not versions:
        return []
    compared = versions if level.endswith("_TRANSITIVE") else versions[-1:]
    problems: list[str] = []
    for number, earlier in reversed(compared):
        name = f"version {number}"
        if level.startswith(("BACKWARD", "FULL")):
            problems += map(str, compare(new, earlier, Sides(reader=NEW, writer=name)))
        if level.startswith(("FORWARD", "FULL")):
            problems += map(str, compare(earlier, new, Sides(reader=name, writer=NEW)))
    return list(dict.fromkeys(problems))[:_MOST]
