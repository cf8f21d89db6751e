"""Runs two applications in one Spark session on endless data, and shows their results live in the terminal.

A server beside them shows them in a web page, whose address is printed first.

    python examples/demo.py [--seconds N] [--keep]

Generators write words and trades to an embedded log in a temporary directory. The applications are those of
`word_count` and `stock_statistics`, unchanged. Ctrl-C stops everything.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # makes it runnable as a script

import msgspec
from examples.generator import Generated, create_topics, write
from examples.stock_statistics import generate as trades
from examples.stock_statistics.app import app as statistics
from examples.word_count import generate as lines
from examples.word_count.app import app as words
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from millstream import App, MillstreamError
from millstream.config import Config
from millstream.errors import SetupError
from millstream.log import Log, open_log
from millstream.runtime.lifecycle import State
from millstream.runtime.observe.server import DEFAULT, Server

HISTORY_MS = 60_000
"""The data starts in the past, so that there are results at once."""

EVERY = 0.25
NEXT = """
What to try next:
  examples/word_count/app.py   one of the two applications of this demo
  examples/README.md           all other examples
  docs/tutorial.md             write your first application
  .venv/bin/millstream --help  the command line
"""


class Demo(NamedTuple):
    """An application and the generator of its data."""

    app: App
    topics: list[str]
    records: Callable[[random.Random, int, int], Iterator[Generated]]
    every_ms: int


def main() -> int:
    """Runs the demo."""
    parser = argparse.ArgumentParser(description="Two applications on Spark, live.")
    parser.add_argument("--seconds", type=float, help="stop after this many seconds (default: at Ctrl-C)")
    parser.add_argument("--keep", action="store_true", help="keep the data directory, and print its path")
    options = parser.parse_args()
    directory = make_directory(kept=options.keep)
    os.environ["MILLSTREAM_DATA"] = directory
    status = 0
    try:
        run(Path(directory), options.seconds)
    except KeyboardInterrupt:
        pass
    except MillstreamError as error:
        sys.stderr.write(f"error: {error}\n")
        status = 1
    finally:
        if options.keep:
            print(f"The data is in {directory}: millstream topics list --data {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return status


def make_directory(*, kept: bool) -> str:
    """Creates a data directory, and removes those of killed demos: their names contain the id of the process."""
    prefix = "millstream-demo-"
    for old in Path(tempfile.gettempdir()).glob(f"{prefix}[0-9]*-*"):
        try:
            os.kill(int(old.name.removeprefix(prefix).partition("-")[0]), 0)
        except ProcessLookupError:
            shutil.rmtree(old, ignore_errors=True)
        except OSError:
            pass  # the process belongs to another user
    return tempfile.mkdtemp(prefix=f"{prefix}kept-" if kept else f"{prefix}{os.getpid()}-")


def run(directory: Path, seconds: float | None) -> None:
    """Starts generators and applications, and shows their results until Ctrl-C."""
    demos = [Demo(words, lines.TOPICS, lines.records, 100), Demo(statistics, trades.TOPICS, trades.records, 50)]
    started, ended = time.monotonic(), threading.Event()
    console = Console()
    with open_log(directory) as log, contextlib.ExitStack() as stack:
        for demo in demos:
            create_topics(log, demo.topics)
            generator = threading.Thread(target=generate, args=(log, demo, ended), daemon=True)
            generator.start()
            stack.callback(generator.join)
        stack.callback(ended.set)
        for demo in demos:
            demo.app.config = Config({**{key: demo.app.config[key] for key in demo.app.config}, "status": "none"})
        start_server(stack, directory)
        screen = Screen(log, console, started)
        with screen:
            for demo in demos:
                screen.handles.append(stack.enter_context(demo.app.start()))
            try:
                while seconds is None or time.monotonic() - started < seconds:
                    screen.update()
                    time.sleep(EVERY)
            except KeyboardInterrupt:
                screen.show_note("stopping: each application finishes its batch …")
                for handle in screen.handles:
                    handle.stop()
    console.print(NEXT, highlight=False, soft_wrap=True)


def start_server(stack: contextlib.ExitStack, directory: Path) -> None:
    """Starts the server of the web page, which prints its address. Without its packages, there is no page."""
    for address in (DEFAULT, "127.0.0.1:0"):  # a free port, if another process uses that of the default
        try:
            stack.enter_context(Server(None, Config({"state.dir": str(directory)}), address))
        except SetupError as error:
            problem = error
        else:
            return
    print(f"There is no web page: {problem.message} ({problem.hint})")


def generate(log: Log, demo: Demo, ended: threading.Event) -> None:
    """Writes the records that are due, ten times per second."""
    start = int(time.time() * 1000) - HISTORY_MS
    endless = demo.records(random.Random(7), sys.maxsize, start)
    count = 0
    while not ended.is_set():
        due = (int(time.time() * 1000) - start) // demo.every_ms - count
        write(log, itertools.islice(endless, due))
        count += due
        ended.wait(0.1)


class Screen:
    """The output of the demo: tables in a terminal, else a line every two seconds."""

    def __init__(self, log: Log, console: Console, started: float) -> None:
        self._log = log
        self._console = console
        self._started = started
        self._live: Live | None = None
        self._printed_at = 0.0
        self._note = "starting Spark"
        self._positions: dict[tuple[str, int], int] = {}
        self._statistics: dict[str, dict[str, Any]] = {}
        self._words: dict[str, int] = {}
        self._ranking: list[list[Any]] = []
        self._first: float | None = None
        self.handles: list[Any] = []

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(self._page(), console=self._console, refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live is not None:
            self._live.update(self._page(), refresh=True)
            self._live.stop()

    def show_note(self, note: str) -> None:
        """Shows a note about the progress."""
        self._note = note
        if self._live is None:
            print(note, flush=True)
        else:
            self._live.update(self._page(), refresh=True)

    def update(self) -> None:
        """Reads new results and shows them."""
        for handle in self.handles:
            if handle.state.is_over:
                handle.wait()
        if self._first is None and all(handle.state is State.RUNNING for handle in self.handles):
            self._note = "Spark is running, waiting for the first batches"
        self._read()
        if self._first is None and self._words and self._statistics:
            self._first = time.monotonic() - self._started
            self._note = f"first results after {self._first:.0f} s; Ctrl-C stops it"
        if self._live is not None:
            self._live.update(self._page())
        elif time.monotonic() - self._printed_at >= 2.0:
            self._printed_at = time.monotonic()
            self._print()

    def _read(self) -> None:
        for key, value in self._new("word-counts"):
            self._words[key] = int.from_bytes(value, "big")
        for key, value in self._new("trade-statistics"):
            self._statistics[key] = msgspec.json.decode(value)
        for _key, value in self._new("daily-top-ten"):
            self._ranking = msgspec.json.decode(value)

    def _new(self, topic: str) -> Iterator[tuple[str, bytes]]:
        """Yields the records that were added to a topic since the last call."""
        existing = {topic.name for topic in self._log.topics()}
        for partition, end in enumerate(self._log.ends([topic])[topic] if topic in existing else []):
            begin = self._positions.get((topic, partition), 0)
            self._positions[topic, partition] = end
            for row in self._log.read(topic, partition, begin, end).to_pylist():
                yield row["key"].decode(), row["value"]

    def _page(self) -> RenderableType:
        seconds = time.monotonic() - self._started
        head = Text.assemble(("Millstream", "bold"), f"  {self._note}  ({seconds:.0f} s)")
        lines = [Text(self._line(handle), no_wrap=True, overflow="ellipsis") for handle in self.handles]
        return Group(head, *lines, Columns([self._word_table(), self._statistics_table()], padding=(0, 2)))

    @staticmethod
    def _line(handle: Any) -> str:
        figures = handle.metrics()
        name = handle.application_id
        if not figures["batches"]:
            return f"  {name:18} {figures['state'].lower()} …"
        rate = figures["records_per_second"]
        lag = sum(source["lag"] for source in figures["sources"].values())
        return (
            f"  {name:18} in {rate['in']:.0f}/s  out {rate['out']:.0f}/s  lag {lag}  "
            f"batch {figures['last_batch_seconds'] * 1000:.0f} ms"
        )

    def _word_table(self) -> Table:
        table = Table("word", "count", title="word count", title_justify="left")
        table.columns[1].justify = "right"
        for word, count in sorted(self._words.items(), key=lambda row: -row[1])[:10]:
            table.add_row(word, f"{count:,}")
        return table

    def _statistics_table(self) -> Table:
        names = ("trades", "lowest", "highest", "average")
        table = Table("ticker", *names, "today", title="trades of 5 seconds, and of today", title_justify="left")
        for column in table.columns[1:]:
            column.justify = "right"
        for ticker, volume in self._ranking[:10]:
            row = self._statistics.get(ticker)
            cells = [""] * 4 if row is None else [f"{row[name]:.2f}" for name in names]
            table.add_row(ticker, cells[0].partition(".")[0], *cells[1:], f"{volume:,}")
        return table

    def _print(self) -> None:
        words = sorted(self._words.items(), key=lambda row: -row[1])[:3]
        counts = ", ".join(f"{word} {count}" for word, count in words)
        tickers = ", ".join(f"{ticker} {volume}" for ticker, volume in self._ranking[:3])
        lines = "; ".join(" ".join(self._line(handle).split()) for handle in self.handles)
        print(f"{time.monotonic() - self._started:5.1f} s  {lines}", flush=True)
        if words or tickers:
            print(f"         words: {counts}; volumes: {tickers}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
