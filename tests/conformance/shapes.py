"""Converts records and stores to the format of vectors."""

from __future__ import annotations

from typing import Any

from millstream import Record, TestDriver, Windowed


def show(value: Any) -> Any:
    """A key or value in the format of vectors."""
    if isinstance(value, Windowed):
        return {"key": value.key, "start": value.start, "end": value.end}
    return value


def show_record(topic: str, record: Record[Any, Any]) -> dict[str, Any]:
    """An output record in the format of vectors."""
    shown = {"topic": topic, "key": show(record.key), "value": show(record.value), "ts": record.timestamp}
    if record.headers:
        shown["headers"] = [[name, None if data is None else data.decode()] for name, data in record.headers]
    return shown


def dump_stores(
    driver: TestDriver, stores: list[dict[str, Any]], inputs: list[dict[str, Any]], steps: list[list[dict[str, Any]]]
) -> dict[str, Any]:
    """The contents of all named stores at the end."""
    records = [step for step in inputs if "topic" in step] + [record for step in steps for record in step]
    keys = [record["key"] for record in records]
    times = sorted({step["ts"] for step in inputs if "ts" in step})
    return {store["name"]: DUMPS[store["kind"]](driver, store, keys, times) for store in stores}


def _bytes(key: Any) -> bytes:
    return key.encode() if isinstance(key, str) else key.to_bytes(8, "big", signed=True)


def _candidates(keys: list[Any], kind: str) -> list[Any]:
    wanted = {"string": str, "long": int}[kind]
    plain = {key["key"] if isinstance(key, dict) else key for key in keys}
    return sorted((key for key in plain if type(key) is wanted), key=_bytes)


def _kv(driver: TestDriver, store: dict[str, Any], _keys: list[Any], _times: list[int]) -> list[Any]:
    if store.get("plain"):
        return [{"key": key, "value": value} for key, value in driver.store(store["name"]).all()]
    view = driver.store(store["name"], timestamped=True)
    return [{"key": show(key), "value": row.value, "ts": row.timestamp} for key, row in view.all()]


def _window(driver: TestDriver, store: dict[str, Any], _keys: list[Any], _times: list[int]) -> list[Any]:
    if store.get("plain"):
        rows = [
            {"key": key.key, "start": key.start, "value": value} for key, value in driver.store(store["name"]).all()
        ]
    else:
        rows = [
            {"key": key.key, "start": key.start, "value": row.value, "ts": row.timestamp}
            for key, row in driver.store(store["name"], timestamped=True).all()
        ]
    return sorted(rows, key=lambda row: (_bytes(row["key"]), row["start"]))


def _session(driver: TestDriver, store: dict[str, Any], keys: list[Any], _times: list[int]) -> list[Any]:
    view = driver.store(store["name"])
    rows = [
        {"key": windowed.key, "start": windowed.start, "end": windowed.end, "value": value}
        for key in _candidates(keys, store["key"])
        for windowed, value in view.fetch(key)
    ]
    return sorted(rows, key=lambda row: (_bytes(row["key"]), row["start"], row["end"]))


def _versioned(driver: TestDriver, store: dict[str, Any], keys: list[Any], times: list[int]) -> list[Any]:
    view = driver.store(store["name"])
    rows = []
    for key in _candidates(keys, store["key"]):
        latest = view.get(key)
        history = [
            {"value": version.value, "ts": version.timestamp, "as_of": time}
            for time in times
            if (version := view.get(key, as_of=time)) is not None
        ]
        shown = None if latest is None else {"value": latest.value, "ts": latest.timestamp}
        rows.append({"key": key, "latest": shown, "history": history})
    return rows


DUMPS = {"kv": _kv, "window": _window, "session": _session, "versioned": _versioned}
