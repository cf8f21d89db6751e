"""`millstream dev`: servers on this machine for development."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from millstream.cli.dev_registry import registry
from millstream.cli.exits import CommandError
from millstream.cli.options import Data, Output, command
from millstream.cli.printing import print_json, print_note, print_text
from millstream.core.durations import show_ms
from millstream.text.sizes import show_bytes

if TYPE_CHECKING:
    from millstream.dev.broker import Broker

dev = typer.Typer(no_args_is_help=True, help="Servers on this machine for development.")
kafka = typer.Typer(no_args_is_help=True, help="A Kafka broker: one node, on the loopback interface.")
dev.add_typer(kafka, name="kafka")
dev.add_typer(registry, name="registry")

_FOLDER = "kafka"
_PORT = 9092


@command(
    kafka,
    "start",
    "millstream dev kafka start",
    "millstream dev kafka start --port 19092",
    "export MILLSTREAM_BOOTSTRAP_SERVERS=$(millstream dev kafka start)",
    local=True,
)
def start(
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65_535, help="Its port. Default: the previous one, else 9092."),
    ] = None,
    data: Data = None,
) -> None:
    """Starts a Kafka broker in the background, and prints its address.

    It needs Java, and Maven, which downloads Kafka the first time. The broker keeps its data in the folder kafka of the
    data directory. It listens on 127.0.0.1 only, without security. Retention is unlimited, except for topics created
    with retention.ms or retention.bytes.
    """
    from millstream.core.data_directory import check_directory
    from millstream.dev.broker import Broker, check_client
    from millstream.dev.jars import KAFKA, download_jars, has_jars

    directory = _directory(data)
    check_directory(directory.parent, create=True)
    broker = _existing(directory)
    if broker is not None and broker.pid is not None:
        if port is not None and port != broker.port_of("PLAINTEXT"):
            hint = "stop it first: millstream dev kafka stop"
            raise CommandError(f"the broker is already running at {broker.bootstrap_servers}", hint=hint)
        print_note(f"the broker is already running (process {broker.pid})")
        broker.wait_until_ready()
        print_text(broker.bootstrap_servers)
        return
    check_client()
    if not has_jars():
        print_note(f"downloading Kafka {KAFKA} with Maven, once; it takes half a minute …")
        download_jars()
    print_note("starting the broker …")
    broker = Broker(directory, port=_PORT if port is None and broker is None else port, attached=False)
    broker.start()
    print_note(f"the broker is running (process {broker.pid}); its data is in {directory}")
    print_text(broker.bootstrap_servers)
    print_note(f"try: millstream topics list --bootstrap-servers {broker.bootstrap_servers}")


@command(kafka, "stop", "millstream dev kafka stop", "millstream dev kafka stop --delete", local=True)
def stop(
    delete: Annotated[bool, typer.Option("--delete", help="Delete its data: all topics and their records.")] = False,
    data: Data = None,
) -> None:
    """Stops the Kafka broker. Its data is kept, unless --delete is given."""
    directory = _directory(data)
    broker = _existing(directory)
    if broker is None or broker.pid is None:
        print_note("the broker is not running")
    else:
        broker.stop()
        print_note("the broker was stopped")
    if delete and broker is not None:
        broker.delete()
        print_note(f"{directory} was deleted")


@command(kafka, "status", "millstream dev kafka status", "millstream dev kafka status --output json", local=True)
def status(data: Data = None, output: Output = "table") -> None:
    """Shows whether the Kafka broker is running, and its address."""
    directory = _directory(data)
    broker = _existing(directory)
    pid = broker.pid if broker is not None else None
    size = broker.size if broker is not None else 0
    if broker is None or pid is None:
        if output == "json":
            print_json(_Status(running=False, data=str(directory), size=size)._asdict())
        else:
            print_text(f"not running; its data in {directory} has {show_bytes(size)}" if broker else "not running")
        return
    uptime = max(0, round(time.time() - (broker.started or time.time())))
    answers = broker.answers()
    if output == "json":
        print_json(
            _Status(True, answers, pid, broker.bootstrap_servers, uptime, str(directory), size)._asdict(),
        )
        return
    print_text(f"running at {broker.bootstrap_servers}{'' if answers else ', but it does not answer'}")
    print_text(f"process {pid}, for {show_ms(uptime * 1000)}; its data in {directory} has {show_bytes(size)}")


class _Status(NamedTuple):
    """The status of a broker; times in seconds, sizes in bytes."""

    running: bool
    answers: bool = False
    pid: int | None = None
    bootstrap_servers: str | None = None
    uptime: int | None = None
    data: str = ""
    size: int = 0


def _directory(data: str | None) -> Path:
    from millstream.core.data_directory import data_directory

    return data_directory(data) / _FOLDER


def _existing(directory: Path) -> Broker | None:
    """Returns the broker of a directory, or None if it was never started. Creates no files."""
    from millstream.dev.broker import Broker

    return Broker(directory, attached=False) if (directory / "broker.json").exists() else None
