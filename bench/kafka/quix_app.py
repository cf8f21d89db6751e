"""The same work by Quix Streams, in an environment of its own: quix_app.py SERVERS APPLICATION CASE INPUT DIRECTORY."""

from __future__ import annotations

import sys

from quixstreams import Application  # type: ignore[import-not-found]


def counted(_value, state):  # type: ignore[no-untyped-def]
    total = state.get("total", 0) + 1
    state.set("total", total)
    return total


def main() -> None:
    servers, name, case, given, directory = sys.argv[1:6]
    app = Application(
        broker_address=servers,
        consumer_group=name,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        state_dir=directory,
        loglevel="WARNING",
    )
    serdes = "integer" if case == "count" else "str"
    source = app.topic(given, key_deserializer="str", value_deserializer="str")
    sink = app.topic(f"{name}-out", key_serializer="str", value_serializer=serdes)
    records = app.dataframe(source)
    changed = records.apply(counted, stateful=True) if case == "count" else records.apply(str.upper)
    changed.to_topic(sink)
    app.run()


if __name__ == "__main__":
    main()
