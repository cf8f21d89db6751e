"""The command vectors of processors, run against the stores directly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from millstream.core.records import Windowed
from millstream.serde import JSON, STRING
from millstream.state.api import LATEST, NOT_PUT
from millstream.state.memory import open_store
from millstream.state.spec import StoreSpec
from millstream.state.stores import user_store

CASES = [json.loads(line) for line in Path(__file__).with_name("store_commands.jsonl").read_text().splitlines()]
KINDS = {"kv": "key-value", "window": "window", "session": "session", "versioned": "versioned"}


def spell(value: Any) -> str:
    return "null" if value is None else str(value)


def listing(entries: Any) -> list[str]:
    return [f"{key}={value}" for key, value in entries] + ["end"]


def run_kv(store: Any, key: str, command: str, *words: str) -> list[str]:
    match command:
        case "put":
            store.put(key, words[0])
            return ["ok"]
        case "putnull":
            store.put(key, None)
            return ["ok"]
        case "get" | "delete":
            return [spell(getattr(store, command)(key))]
        case "put_if_absent":
            return [spell(store.put_if_absent(key, words[0]))]
        case "prefix":
            return listing(store.prefix_scan(words[0]))
        case _:
            return listing(getattr(store, command)(*[word or None for word in words]))


def run_window(store: Any, key: str, command: str, *words: str) -> list[str]:
    match command:
        case "put" | "putnull":
            store.put(key, words[1] if words[1:] else None, int(words[0]))
            return ["ok"]
        case "get":
            return [spell(store.fetch(key, int(words[0])))]
        case "fetch" | "backward_fetch":
            return listing(getattr(store, command)(key, int(words[0]), int(words[1])))
        case "fetch_keys":
            return listing(store.fetch_range(words[0], words[1], int(words[2]), int(words[3])))
        case _:
            return listing(getattr(store, command)(*map(int, words)))


def run_session(store: Any, key: str, command: str, *words: str) -> list[str]:
    times = [int(word) for word in words[:2]]
    match command:
        case "put":
            store.put(Windowed(key, *times), words[2])
            return ["ok"]
        case "remove":
            store.remove(Windowed(key, *times))
            return ["ok"]
        case "get":
            return [spell(store.fetch_session(key, *times))]
        case "find":
            return listing(store.find_sessions(key, *times))
        case _:
            return listing(store.fetch(key))


def run_versioned(store: Any, key: str, command: str, *words: str) -> list[str]:
    if command in {"put", "putnull"}:
        valid_to = store.put(key, words[1] if words[1:] else None, int(words[0]))
        return [{LATEST: "latest", NOT_PUT: "not put"}.get(valid_to, f"until {valid_to}")]
    if command == "delete":
        version = store.delete(key, int(words[0]))
    else:
        version = store.get(key, as_of=int(words[0]) if words else None)
    return [spell(None) if version is None else f"{version.value}@{version.timestamp}"]


def rows(kind: str, store: Any, case: dict[str, Any]) -> list[dict[str, Any]]:
    keys = sorted({key for key, _, _ in case["steps"]})
    match kind:
        case "kv":
            return [{"key": key, "value": value} for key, value in store.all()]
        case "window":
            entries = [{"key": at.key, "start": at.start, "value": value} for at, value in store.all()]
            return sorted(entries, key=lambda row: (row["key"], row["start"]))
        case "session":
            entries = [
                {"key": at.key, "start": at.start, "end": at.end, "value": v}
                for key in keys
                for at, v in store.fetch(key)
            ]
            return sorted(entries, key=lambda row: (row["key"], row["start"], row["end"]))
        case _:
            return [versions(store, key, case["timestamps"]) for key in keys]


def versions(store: Any, key: str, timestamps: list[int]) -> dict[str, Any]:
    latest = store.get(key)
    history = [(store.get(key, as_of=time), time) for time in timestamps]
    return {
        "key": key,
        "latest": None if latest is None else {"value": latest.value, "ts": latest.timestamp},
        "history": [{"value": v.value, "ts": v.timestamp, "as_of": time} for v, time in history if v is not None],
    }


RUN: dict[str, Any] = {"kv": run_kv, "window": run_window, "session": run_session, "versioned": run_versioned}


@pytest.mark.parametrize("serde", [STRING, JSON], ids=["objects", "bytes"])
@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_commands_give_the_results_of_the_vectors(case: dict[str, Any], serde: Any, restarted: bool) -> None:
    kind: Any = KINDS[case["kind"]]
    spec = StoreSpec("st", kind, STRING, serde, retention_ms=case["retention_ms"], window_size_ms=case["size_ms"])
    store = open_store(spec)
    log: list[Any] = []
    for step, (key, value, expected) in enumerate(case["steps"]):
        if value is None:
            continue
        assert RUN[case["kind"]](user_store(store), key, *value.split(":")) == expected, (step, value)
        if restarted:
            log += store.changes()
            store = open_store(spec)
            store.restore(log)
    assert rows(case["kind"], user_store(store), case) == case["rows"]
