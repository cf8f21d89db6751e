"""The same work by Millstream: millstream_app.py SERVERS APPLICATION CASE INPUT DATA_DIRECTORY [key=value ...]."""

from __future__ import annotations

import sys

from millstream import App, Stream, Table, join_window, tumbling

Strings = Stream[str, str]


def main() -> None:
    servers, name, case, given, directory, *more = sys.argv[1:]
    config = {"bootstrap.servers": servers, "state.dir": directory, "status": "json"}
    app = App(name, config={**config, **dict(pair.split("=", 1) for pair in more)})
    records = app.stream(given, key=str, value=str)
    out = f"{name}-out"
    match case:
        case "count":
            records.group_by_key().count().to_stream().to(out)
        case "map":
            records.map_values(str.upper, value=str).to(out)
        case "windows":
            windows = records.group_by_key().windowed_by(tumbling("1m", grace="10s"))
            windows.count().to_stream().to(out)
        case "stream-table":
            records.join(rows(app), lambda value, row: row + value, value=str).to(out)
        case "table-table":
            records.to_table().join(rows(app), lambda value, row: row + value, value=str).to_stream().to(out)
        case "rekeyed":
            records.group_by(lambda value: value[2:8], key=str).count().to_stream().to(out)
        case "one-exchange":
            with_payment(app, by_field(1, latest(records))).to(out)
        case "two-exchanges":
            with_payment(app, by_field(1, latest(by_field(2, latest(records))))).to(out)
        case _:
            raise SystemExit(f"there is no case {case!r}")
    app.run()


def rows(app: App) -> Table[str, str]:
    """A table with a row for each key of the input."""
    return app.table("table", key=str, value=str)


def latest(payments: Strings) -> Strings:
    """A stateful operator: the latest payment of each key."""
    return payments.group_by_key().reduce(lambda _last, payment: payment).to_stream()


def by_field(field: int, payments: Strings) -> Strings:
    """Payments are "payment order account"."""
    return payments.select_key(lambda payment: payment.split()[field], key=str)


def with_payment(app: App, payments: Strings) -> Strings:
    return app.stream("orders", key=str, value=str).left_join(
        payments,
        lambda order, payment: f"{order} {payment.split()[0] if payment else '-'}",
        join_window("10m", grace="2m"),
        value=str,
    )


if __name__ == "__main__":
    main()
