"""Shows what an example has written: ``python examples/show.py word_count [TOPIC …]``."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that the examples are found from anywhere

from millstream import App, MillstreamError
from millstream.log import Log, open_log
from millstream.plan.stateless import Sink
from millstream.serde import BYTES, Serde

EXAMPLES = sorted(path.parent.name for path in Path(__file__).parent.glob("*/app.py"))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Shows the last records of the topics that an example writes.")
    parser.add_argument("example", choices=EXAMPLES)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="default: all whose names the topology has")
    parser.add_argument("--data", metavar="DIR", help="the data directory (default: $MILLSTREAM_DATA or .millstream)")
    parser.add_argument("--last", type=int, default=10, metavar="N", help="how many of each partition (default: 10)")
    options = parser.parse_args()
    app: App = importlib.import_module(f"examples.{options.example}.app").app
    sinks = list(app.plan().of_type(Sink))
    serdes = {sink.topic: (sink.key, sink.value) for sink in sinks if isinstance(sink.topic, str)}
    chosen = next(((sink.key, sink.value) for sink in sinks if not isinstance(sink.topic, str)), (BYTES, BYTES))
    letters = app.config["errors.dead.letter.queue.topic.name"]
    if letters is not None:
        serdes[letters] = BYTES, BYTES
    try:
        with open_log(options.data, create=False) as log:
            for topic in options.topics or serdes:
                show(log, topic, *serdes.get(topic, chosen), last=options.last)
    except MillstreamError as error:
        sys.exit(f"error: {error}")


def show(log: Log, topic: str, key: Serde[Any], value: Serde[Any], *, last: int) -> None:
    """Prints the last records of each partition of a topic."""
    print(f"{topic}:")
    for partition, end in enumerate(log.ends([topic])[topic]):
        for row in log.read(topic, partition, max(0, end - last), end).to_pylist():
            print(f"  {row['timestamp']}  {key.deserialize(row['key'])}  {value.deserialize(row['value'])}")


if __name__ == "__main__":
    main()
