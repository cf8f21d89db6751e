"""`millstream groups`: the committed offsets of consumer groups and applications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.log_access import open_data
from millstream.cli.options import Data, Output, command
from millstream.cli.printing import print_note, print_rows, print_text
from millstream.errors import UnknownGroupError, suggestion

if TYPE_CHECKING:
    from millstream.log import Log

_WIDTH = 40

groups = typer.Typer(no_args_is_help=True, help="Consumer groups and applications: committed offsets and lag.")


@command(groups, "list", "millstream groups list", "millstream groups list --output json")
def list_(data: Data = None, output: Output = "table") -> None:
    """Lists the groups with their lag. Each application is a group of the same name."""
    from millstream.log import Scope

    with open_data(data) as log:
        rows = []
        for name in log.groups():
            offsets = _progress(log, name)
            kind = "consumer" if log.applications.published(Scope(name)) is None else "application"
            topics = sorted({topic for topic, *_ in offsets})
            lag = sum(row[4] for row in offsets)
            rows.append([name, kind, _listed(topics) if output == "table" else topics, lag])
    if not rows and output == "table":
        print_note("there are no groups")
        return
    print_rows(["Group", "Type", "Topics", "Lag"], rows, output)


@command(groups, "describe", "millstream groups describe word-count")
def describe(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="The group, or an application id.")],
    data: Data = None,
    output: Output = "table",
) -> None:
    """Shows the committed offset and the lag of a group or an application, by partition.

    The lag is in offsets. On a cluster, not every offset is a record: transaction markers have offsets, too.
    """
    from millstream.log import Scope

    with open_data(data) as log:
        names = log.groups()
        if name not in names:
            hint = suggestion(name, names) or (f"the groups are: {', '.join(names)}" if names else "there are none")
            raise UnknownGroupError(f"there is no group {name!r}", hint=hint)
        rows = _progress(log, name)
        published = log.applications.published(Scope(name))
    if published is not None and output == "table":
        print_text(f"application {name}, last batch {published.batch}\n")
    print_rows(["Topic", "Partition", "Offset", "End", "Lag"], rows, output)


def _progress(log: Log, group: str) -> list[tuple[str, int, int | None, int, int]]:
    """Returns the committed offset (None if there is none), the end offset and the lag of each partition."""
    committed = log.committed(group)
    topics = sorted({topic for topic, _ in committed})
    starts, ends = log.starts(topics), log.ends(topics)
    rows = []
    for topic in topics:
        for partition, (start, end) in enumerate(zip(starts[topic], ends[topic], strict=True)):
            offset = committed.get((topic, partition))
            rows.append((topic, partition, offset, end, max(0, end - (start if offset is None else offset))))
    return rows


def _listed(topics: list[str]) -> str:
    """Returns topics in a short form; `groups describe` lists all of them.

    >>> _listed(["orders"]), _listed(["orders-of-customers", "orders-of-shops", "prices"])
    ('orders', 'orders-of-customers, … (3)')
    """
    text = ", ".join(topics)
    return text if len(text) <= _WIDTH else f"{topics[0]}, … ({len(topics)})"
