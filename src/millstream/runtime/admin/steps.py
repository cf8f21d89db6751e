"""The steps of a reset or a migration: as they are planned, and as they are reported once they are done."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from millstream.log import Log, Scope

_AS_DONE = {
    "delete ": "deleted ",
    "leave ": "left ",
    "shut out ": "shut out ",
    "give up ": "gave up ",
    "continue ": "the next start continues ",
    "begin to read ": "the next start begins to read ",
    "begin with ": "the next start begins with ",
    "begin a new checkpoint ": "the next start begins a new checkpoint ",
    "rebuild ": "the next start rebuilds ",
    "read global table ": "the next start reads global table ",
}
"""The beginning of each step as it is planned, and as it is reported once it is done."""


def as_done(steps: list[str]) -> list[str]:
    """Rewrites planned steps as done; steps that only the next start does are named as such."""
    prefixes = [next(prefix for prefix in _AS_DONE if step.startswith(prefix)) for step in steps]
    return [_AS_DONE[prefix] + step.removeprefix(prefix) for prefix, step in zip(prefixes, steps, strict=True)]


def delete_local(paths: Mapping[Path, str], *, dry_run: bool) -> list[str]:
    """Deletes directories of this machine, if they exist; returns the steps.

    Args:
        paths: The content of each directory.
        dry_run: Delete nothing.
    """
    existing = {path: content for path, content in paths.items() if path.exists()}
    if not dry_run:
        for path in existing:
            shutil.rmtree(path)
    return [f"delete the {content} {path}" for path, content in existing.items()]


def own_topics(log: Log, application: str) -> list[str]:
    """The internal topics of an application, without those of applications whose id has its id as a prefix."""
    begin = f"{application}-"
    others = [
        group
        for group in log.groups()
        if group.startswith(begin) and log.applications.published(Scope(group)) is not None
    ]
    return [
        topic.name
        for topic in log.topics()
        if topic.internal
        and topic.name.startswith(begin)
        and topic.name.endswith(("-repartition", "-changelog", "-progress.tasks"))
        and not topic.name.startswith(tuple(f"{other}-" for other in others))
    ]
