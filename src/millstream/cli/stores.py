"""`millstream stores`: queries the named stores of applications, as of their last batch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from millstream.cli.exits import CommandError, UsageError
from millstream.cli.log_access import check_application, location_of, open_data
from millstream.cli.options import Data, Output, command
from millstream.cli.printing import format_time, print_json, print_note, print_rows
from millstream.cli.serdes import KeySerde, ValueSerde, serde_named, to_value
from millstream.cli.user_input import to_milliseconds
from millstream.core.durations import END_OF_TIME, show_ms
from millstream.core.records import Windowed
from millstream.errors import ConfigError, UnknownStoreError, suggestion
from millstream.schemas.json_values import to_json_value, to_text
from millstream.serde import BYTES, Serde, list_of, serde_for
from millstream.state.spec import StoreSpec

if TYPE_CHECKING:
    from millstream.log.opening import LogLocation

stores = typer.Typer(no_args_is_help=True, help="The named stores of applications, as of their last batch.")

Application = Annotated[str, typer.Argument(metavar="APPLICATION", help="The application id.")]
Store = Annotated[str, typer.Argument(metavar="STORE", help="The name of the store.")]
TimeFrom = Annotated[
    str | None, typer.Option("--time-from", metavar="TIME", help="Windows that start at this time or later.")
]
TimeTo = Annotated[
    str | None, typer.Option("--time-to", metavar="TIME", help="Windows that start at this time or earlier.")
]


@command(stores, "list", "millstream stores list word-count")
def list_(application: Application, data: Data = None, output: Output = "table") -> None:
    """Lists the stores of an application that can be queried."""
    with _opened(data, application) as opened:
        rows = []
        for name in opened.queryable:
            store = opened.plan[name]
            retention = store.get("retention_ms")
            if retention is not None and output == "table":
                retention = show_ms(retention)
            rows.append([name, store["kind"], store["key"], store["value"], retention, store["operator"]])
        new = [name for name in opened.queryable if opened.entry(name) is None]
    if not rows and output == "table":
        print_note(f"application {application} has no named store")
        return
    print_rows(["Store", "Kind", "Key", "Value", "Retention", "Operator"], sorted(rows), output)
    if new and output == "table":
        print_note(f"no batch has written to these stores yet: {', '.join(sorted(new))}")


@command(
    stores,
    "get",
    "millstream stores get word-count counts be",
    "millstream stores get shop sales north --time-from 2026-01-31T12:00:00Z",
)
def get(
    application: Application,
    store: Store,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key as text; a JSON key as JSON.")],
    time_from: TimeFrom = None,
    time_to: TimeTo = None,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="TIME", help="Of a versioned store: the value that was valid at this time."),
    ] = None,
    key_serde: KeySerde = None,
    value_serde: ValueSerde = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Looks up a key: its value, or its windows in a window or session store. A key without a row is an error."""
    with _opened(data, application) as opened:
        spec = opened.spec(store, key_serde, value_serde)
        wanted = to_value(key, spec.key, "KEY")
        moment = None if as_of is None else to_milliseconds(as_of, "--as-of")
        rows = list(_of_key(opened.view(spec), spec, wanted, _times(time_from, time_to), moment))
    if not rows:
        raise CommandError(f"store {store!r} of application {application!r} has no row for {key!r}")
    _show(spec, rows, output)


@command(
    stores,
    "scan",
    "millstream stores scan word-count counts --limit 20",
    "millstream stores scan word-count counts --from a --to n --output json",
)
def scan(
    application: Application,
    store: Store,
    from_: Annotated[str | None, typer.Option("--from", metavar="KEY", help="The first key.")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="KEY", help="The last key.")] = None,
    time_from: TimeFrom = None,
    time_to: TimeTo = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10**9, help="The largest number of rows.")] = 100,
    key_serde: KeySerde = None,
    value_serde: ValueSerde = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Lists the rows of a store, ordered by the bytes of their keys."""
    with _opened(data, application) as opened:
        spec = opened.spec(store, key_serde, value_serde)
        low = None if from_ is None else to_value(from_, spec.key, "--from")
        high = None if to is None else to_value(to, spec.key, "--to")
        entries = _range(opened.view(spec), spec, low, high, _times(time_from, time_to))
        rows = list(itertools.islice(entries, limit + 1))
    _show(spec, rows[:limit], output)
    if len(rows) > limit:
        print_note(f"there are more rows; --limit shows more (now {limit})")


@command(stores, "check", "millstream stores check word-count")
def check(application: Application, data: Data = None, output: Output = "table") -> None:
    """Verifies all rows of the views of an application, and marks damaged views, which its next start rebuilds.

    Small views are also verified when the application starts, and when they are read.
    """
    from millstream.views.integrity import mark_damaged

    with _opened(data, application) as opened:
        names = sorted(name for name in opened.queryable if opened.entry(name) is not None)
        damaged = mark_damaged(opened.path, application) if names else []
    if output == "json":
        print_json({"application": application, "checked": names, "damaged": damaged})
    elif not damaged:
        typer.echo(f"{application}: no view is damaged ({', '.join(names) or 'there are no views'})")
    if damaged:
        raise CommandError(
            f"damaged views of application {application}: {', '.join(damaged)}",
            hint="start the application: it rebuilds them from their changelogs",
        )


class _Stores:
    """The stores of an application, with their definitions in its last topology."""

    def __init__(self, location: LogLocation, application: str, plan: dict[str, Any], queryable: list[str]) -> None:
        from millstream.views.reader import ViewDatabase

        self.path = location.views
        self.database = ViewDatabase(location.views)
        self.application = application
        self.plan = plan
        self.queryable = queryable
        self._exist = location.views.exists()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.database.close()

    def entry(self, name: str) -> Any:
        """Returns the view of a store, or None if no batch has written to it yet."""
        from millstream.views.tables import find_store

        if not self._exist:
            return None
        with self.database.reading() as connection:
            return find_store(connection, self.application, name)

    def spec(self, name: str, key: str | None, value: str | None) -> StoreSpec:
        """Returns the specification of a store, with the serdes of the options if given."""
        if name not in self.queryable:
            names = self.queryable
            hint = suggestion(name, names) or (f"it has: {', '.join(names)}" if names else "it has no named stores")
            raise UnknownStoreError(
                f"application {self.application!r} has no store {name!r} that can be queried", hint=hint
            )
        if self.entry(name) is None:
            from millstream.runtime.queries import no_batch_yet

            raise no_batch_yet(self.application, name)
        store = self.plan[name]
        options = ("timestamped", "retention_ms", "window_size_ms", "duplicates", "held", "inclusive")
        return StoreSpec(
            name,
            store["kind"],
            serde_named(key, "--key-serde") if key else _serde(store["key"]),
            serde_named(value, "--value-serde") if value else _serde(store["value"]),
            **{option: store[option] for option in options if option in store},
        )

    def view(self, spec: StoreSpec) -> Any:
        """Opens a store for reading."""
        from millstream.views.reader import open_view

        return open_view(self.database, self.application, spec, timestamped=True)


def _opened(data: str | None, application: str) -> _Stores:
    from millstream.log import Scope

    with open_data(data) as log:
        state = check_application(log, application)
        has_run = log.applications.published(Scope(application)) is not None
    plan: dict[str, Any] = {} if state.started_plan is None else state.started_plan["stores"]
    queryable = [name for name in state.queryable_stores or [] if name in plan]
    location = location_of(data)
    if plan and has_run and location.cluster is not None and not location.views.exists():
        hint = "stores are read on the machine where the application runs; name its data directory with --data"
        raise CommandError(f"the stores of application {application!r} are not in {location.directory}", hint=hint)
    return _Stores(location, application, plan, queryable)


def _serde(name: str) -> Serde[Any]:
    """Returns the serde of a name in a stored topology; bytes for a user-defined serde, which is unknown here."""
    if name.startswith("list<") and name.endswith(">"):
        return list_of(_serde(name[5:-1]))
    try:
        return serde_for(name)
    except ConfigError:
        return BYTES


def _times(low: str | None, high: str | None) -> tuple[int, int]:
    return (
        0 if low is None else to_milliseconds(low, "--time-from"),
        END_OF_TIME if high is None else to_milliseconds(high, "--time-to"),
    )


def _check_times(spec: StoreSpec, times: tuple[int, int]) -> None:
    if times != _times(None, None) and spec.kind not in {"window", "session"}:
        raise UsageError(f"--time-from, --time-to: store {spec.name!r} is a {spec.kind} store, without windows")


def _of_key(view: Any, spec: StoreSpec, key: Any, times: tuple[int, int], as_of: int | None) -> Iterator[Any]:
    """Yields the rows of a key: (key or windowed key, value)."""
    if as_of is not None and spec.kind != "versioned":
        raise UsageError(f"--as-of: store {spec.name!r} is a {spec.kind} store, not a versioned one")
    _check_times(spec, times)
    if spec.kind == "window":
        yield from view.fetch_range(key, key, *times)
    elif spec.kind == "session":
        yield from view.find_sessions(key, *times)
    else:
        value = view.get(key, as_of) if spec.kind == "versioned" else view.get(key)
        if value is not None:
            yield key, value


def _range(view: Any, spec: StoreSpec, low: Any, high: Any, times: tuple[int, int]) -> Iterator[Any]:
    """Yields the rows of a range of keys."""
    _check_times(spec, times)
    if spec.kind == "versioned":
        raise CommandError(f"store {spec.name!r} is versioned: its keys cannot be listed", hint="use stores get")
    if spec.kind == "window":
        yield from view.fetch_range(low, high, *times)
    elif spec.kind == "session":
        yield from view.find_sessions_range(low, high, *times)
    else:
        yield from view.range(low, high)


def _show(spec: StoreSpec, rows: list[tuple[Any, Any]], output: str) -> None:
    if output == "json":
        for key, value in rows:
            print_json(_row(key, value))
        return
    timed = spec.kind in {"window", "session"}
    stamped = bool(rows) and hasattr(rows[0][1], "timestamp")
    table = []
    for key, value in rows:
        window = [format_time(key.start), format_time(key.end)] if isinstance(key, Windowed) else []
        plain = value.value if stamped else value
        time = [format_time(value.timestamp)] if stamped else []
        table.append([to_text(key.key if isinstance(key, Windowed) else key), *window, to_text(plain), *time])
    columns = ["Key", *(["Start", "End"] if timed else []), "Value", *(["Timestamp"] if stamped else [])]
    if not table:
        print_note(f"store {spec.name} has no matching rows")
        return
    print_rows(columns, table, "table")


def _row(key: Any, value: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"key": to_json_value(key)}
    if isinstance(key, Windowed):
        row = {"key": to_json_value(key.key), "start": key.start, "end": key.end}
    if hasattr(value, "timestamp"):
        row |= {"value": to_json_value(value.value), "timestamp": value.timestamp}
        if getattr(value, "valid_to", None) is not None:
            row["valid_to"] = value.valid_to
        return row
    return {**row, "value": to_json_value(value)}
