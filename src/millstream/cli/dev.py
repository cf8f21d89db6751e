"""`millstream dev`: servers on this machine, to develop with."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from millstream.cli.exits import CommandError
from millstream.cli.printing import print_json
from millstream.cli.shared import Data, Output, command, say, tell
from millstream.core.durations import show_ms
from millstream.text.sizes import show_bytes

if TYPE_CHECKING:
    from millstream.dev.broker import Broker

dev = typer.Typer(no_args_is_help=True, help="Servers on this machine, to develop with.")
kafka = typer.Typer(no_args_is_help=True, help="A Kafka broker: one node, reached from this machine only.")
dev.add_typer(kafka, name="kafka")

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
        typer.Option("--port", min=1, max=65_535, help="Where it listens. Default: where it did before, else 9092."),
    ] = None,
    data: Data = None,
) -> None:
    """Starts a Kafka broker, which runs until it is stopped, and prints where it is.

    It needs Java, and Maven, which brings Kafka the first time. Its data is in the folder kafka of the data directory,
    and is there again when it is started again. It listens on 127.0.0.1 only, without any security. Topics keep their
    records without limit, unless they are made with another retention.ms or retention.bytes.
    """
    from millstream.dev.broker import Broker, check_client
    from millstream.dev.jars import KAFKA, bring_jars, has_jars
    from millstream.log.embedded.directory import check_directory

    directory = _directory(data)
    check_directory(directory.parent, create=True)
    broker = _known(directory)
    if broker is not None and broker.pid is not None:
        if port is not None and port != broker.port_of("PLAINTEXT"):
            hint = "stop it first: millstream dev kafka stop"
            raise CommandError(f"the broker is running already, at {broker.bootstrap_servers}", hint=hint)
        tell(f"the broker is running already (process {broker.pid})")
        broker.wait_until_ready()
        say(broker.bootstrap_servers)
        return
    check_client()
    if not has_jars():
        tell(f"bringing Kafka {KAFKA} by Maven, this once; it takes half a minute …")
        bring_jars()
    tell("starting a broker …")
    broker = Broker(directory, port=_PORT if port is None and broker is None else port, attached=False)
    broker.start()
    tell(f"the broker is running (process {broker.pid}); its data is in {directory}")
    say(broker.bootstrap_servers)
    tell(f"try: millstream topics list --bootstrap-servers {broker.bootstrap_servers}")


@command(kafka, "stop", "millstream dev kafka stop", "millstream dev kafka stop --delete", local=True)
def stop(
    delete: Annotated[bool, typer.Option("--delete", help="Delete its data: all topics and their records.")] = False,
    data: Data = None,
) -> None:
    """Stops the Kafka broker, in order. Its data stays, unless that is to be deleted."""
    directory = _directory(data)
    broker = _known(directory)
    if broker is None or broker.pid is None:
        tell("the broker is not running")
    else:
        broker.stop()
        tell("the broker was stopped")
    if delete and broker is not None:
        broker.delete()
        tell(f"{directory} was deleted")


@command(kafka, "status", "millstream dev kafka status", "millstream dev kafka status --output json", local=True)
def status(data: Data = None, output: Output = "table") -> None:
    """Says whether the Kafka broker is running, and where it is."""
    directory = _directory(data)
    broker = _known(directory)
    pid = broker.pid if broker is not None else None
    size = broker.size if broker is not None else 0
    if broker is None or pid is None:
        if output == "json":
            print_json(_Status(running=False, data=str(directory), size=size)._asdict())
        else:
            say(f"not running; its data in {directory} has {show_bytes(size)}" if broker else "not running")
        return
    uptime = max(0, round(time.time() - (broker.started or time.time())))
    answers = broker.answers()
    if output == "json":
        print_json(
            _Status(True, answers, pid, broker.bootstrap_servers, uptime, str(directory), size)._asdict(),
        )
        return
    say(f"running at {broker.bootstrap_servers}{'' if answers else ', but it does not answer'}")
    say(f"process {pid}, for {show_ms(uptime * 1000)}; its data in {directory} has {show_bytes(size)}")


class _Status(NamedTuple):
    """What is known about a broker; the times in seconds, the sizes in bytes."""

    running: bool
    answers: bool = False
    pid: int | None = None
    bootstrap_servers: str | None = None
    uptime: int | None = None
    data: str = ""
    size: int = 0


def _directory(data: str | None) -> Path:
    from millstream.log.embedded.directory import data_directory

    return data_directory(data) / _FOLDER


def _known(directory: Path) -> Broker | None:
    """The broker of a directory, if there has ever been one; looking for it makes nothing."""
    from millstream.dev.broker import Broker

    return Broker(directory, attached=False) if (directory / "broker.json").exists() else None
