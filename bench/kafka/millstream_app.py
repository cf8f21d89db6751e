"""The same work by Millstream: millstream_app.py SERVERS APPLICATION CASE INPUT DATA_DIRECTORY [key=value ...]."""

from __future__ import annotations

import sys

from millstream import App


def main() -> None:
    servers, name, case, given, directory, *more = sys.argv[1:]
    config = {"bootstrap.servers": servers, "state.dir": directory, "status": "json"}
    app = App(name, config={**config, **dict(pair.split("=", 1) for pair in more)})
    records = app.stream(given, key=str, value=str)
    if case == "count":
        records.group_by_key().count().to_stream().to(f"{name}-out")
    else:
        records.map_values(str.upper, value=str).to(f"{name}-out")
    app.run()


if __name__ == "__main__":
    main()
