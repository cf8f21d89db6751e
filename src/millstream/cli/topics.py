"""`millstream topics`: creates, describes, alters and deletes topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.exits import UsageError
from millstream.cli.log_access import open_data
from millstream.cli.options import Data, Output, Yes, command
from millstream.cli.printing import print_json, print_note, print_rows, print_text
from millstream.cli.user_input import confirm, to_pairs
from millstream.errors import TopicExistsError, UnknownTopicError
from millstream.text.sizes import show_bytes

if TYPE_CHECKING:
    from millstream.log.api import Stored

topics = typer.Typer(no_args_is_help=True, help="Create, describe, alter and delete topics.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The topic.")]


@command(
    topics,
    "create",
    "millstream topics create orders --partitions 4",
    "millstream topics create prices --config cleanup.policy=compact",
    "millstream topics create orders --bootstrap-servers kafka-1:9092 --config replication.factor=3",
)
def create(
    name: Name,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="The number of partitions.")] = 1,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="KEY=VALUE", help="Kafka's keys, such as retention.ms=3600000."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="If the topic exists, leave it unchanged.")
    ] = False,
    data: Data = None,
) -> None:
    """Creates a topic, and the data directory if it does not exist."""
    with open_data(data, create=True) as log:
        try:
            topic = log.create_topic(name, partitions, to_pairs(config), exist_ok=if_not_exists)
        except TopicExistsError as error:
            raise TopicExistsError(error.message, hint="--if-not-exists leaves it unchanged") from None
    print_note(f"topic {topic.name} has {topic.partitions} partition{'s' if topic.partitions > 1 else ''}")


@command(topics, "list", "millstream topics list", "millstream topics list --all --output json")
def list_(
    all: Annotated[bool, typer.Option("--all", help="Include internal topics of applications.")] = False,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Lists the topics with their records and sizes. On a cluster, sizes are not available."""
    with open_data(data) as log:
        listed = [topic for topic in log.topics() if all or not topic.internal]
        rows = []
        for topic in listed:
            held = log.sizes(topic.name)
            size = _total(held)
            records = sum(partition.records for partition in held)
            row = [topic.name, topic.partitions, records, _size_text(size), topic.internal]
            rows.append(row if output == "table" else [*row[:3], size, topic.internal, dict(topic.config)])
    if not rows and output == "table":
        print_note("there are no topics")
        return
    columns = ["Name", "Partitions", "Records", "Size", "Internal"]
    print_rows(columns if output == "table" else [*columns, "Config"], rows, output)


@command(topics, "describe", "millstream topics describe orders")
def describe(name: Name, data: Data = None, output: Output = "table") -> None:
    """Shows a topic: its configuration, and the offsets, records and bytes of each partition."""
    with open_data(data) as log:
        topic = log.topic(name)
        starts, ends, held = log.starts([name])[name], log.ends([name])[name], log.sizes(name)
    rows = [
        [number, start, end, stored.records, stored.size]
        for number, (start, end, stored) in enumerate(zip(starts, ends, held, strict=True))
    ]
    columns = ["Partition", "Start", "End", "Records", "Size"]
    if output == "json":
        parts = [dict(zip(map(str.lower, columns), row, strict=True)) for row in rows]
        print_json({"name": name, "internal": topic.internal, "config": dict(topic.config), "partitions": parts})
        return
    print_text(f"topic {name}{', internal' if topic.internal else ''}\nconfig: {_settings(topic.config)}\n")
    print_rows(columns, [[*row[:-1], _size_text(row[-1])] for row in rows], output)


@command(
    topics,
    "alter",
    "millstream topics alter orders --config retention.ms=-1",
    "millstream topics alter orders --default retention.ms",
)
def alter(
    name: Name,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="KEY=VALUE", help="Kafka's keys, such as retention.ms=3600000."),
    ] = None,
    default: Annotated[
        list[str] | None, typer.Option("--default", metavar="KEY", help="A key to reset to its default.")
    ] = None,
    data: Data = None,
) -> None:
    """Changes the configuration of a topic."""
    changes: dict[str, str | None] = {**to_pairs(config), **dict.fromkeys(default or ())}
    if not changes:
        raise UsageError("there is nothing to change", hint="add --config KEY=VALUE or --default KEY")
    with open_data(data) as log:
        topic = log.alter_topic(name, changes)
    print_note(f"topic {name}: {_settings(topic.config)}")


@command(topics, "delete", "millstream topics delete orders --yes")
def delete(name: Name, yes: Yes = False, data: Data = None) -> None:
    """Deletes a topic with all its records, after confirmation."""
    with open_data(data) as log:
        records = sum(partition.records for partition in log.sizes(name))
        confirm(f"Delete topic {name} with {records} records?", yes=yes)
        log.delete_topic(name)
    print_note(f"topic {name} is deleted")


@command(topics, "compact", "millstream topics compact prices")
def compact(name: Name, data: Data = None, output: Output = "table") -> None:
    """Compacts a topic: removes the records that later ones with the same key have replaced.

    Records that an application may still replay are kept. On a cluster it does nothing: brokers compact topics.
    """
    with open_data(data) as log:
        log.topic(name)
        by_brokers = log.cleanup is None
        records, size = (0, 0) if log.cleanup is None else log.cleanup.compact(name)
    if by_brokers:
        print_note(f"{name}: nothing was done; the brokers of a cluster compact topics themselves, by cleanup.policy")
    if output == "json":
        print_json({"topic": name, "removed_records": records, "removed_bytes": size})
    elif not by_brokers:
        print_text(f"{name}: {records} records ({show_bytes(size)}) removed")


def _settings(config: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in config.items()) or "all defaults"


def _total(held: list[Stored]) -> int | None:
    sizes = [partition.size for partition in held if partition.size is not None]
    return sum(sizes) if len(sizes) == len(held) else None


def _size_text(size: int | None) -> str | None:
    return None if size is None else show_bytes(size)


def check_partition(name: str, partitions: int, partition: int | None) -> None:
    """Raises an error if a topic does not have a partition."""
    if partition is None:
        return
    if partition < 0:
        raise UsageError(f"--partition: {partition} is negative")
    if partition >= partitions:
        raise UnknownTopicError(
            f"topic {name!r} has no partition {partition}", hint=f"its partitions are 0 to {partitions - 1}"
        )
