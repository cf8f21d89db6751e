"""Loads vectors, and compares results with their expected ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

EXPECTED = ("outputs", "stores", "dropped", "error", "describe", "deviates", "kafka")
FOLDER = Path(__file__).parent / "vectors"


def load(family: str | None = None) -> list[dict[str, Any]]:
    """All vectors, or those of one family."""
    files = sorted(FOLDER.glob("*.jsonl")) if family is None else [FOLDER / f"{family}.jsonl"]
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def question(vector: dict[str, Any]) -> dict[str, Any]:
    """The vector without its expected results."""
    return {name: value for name, value in vector.items() if name not in EXPECTED}


def by_topic(records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Groups output records by topic. Each has a list of headers, which may be empty."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        shown = {name: record.get(name) for name in ("key", "value", "ts")}
        topics.setdefault(record["topic"], []).append({**shown, "headers": record.get("headers") or []})
    return topics


def text(value: Any) -> str:
    """JSON text, which distinguishes true from 1, and 1 from 1.0."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def check(vector: dict[str, Any], got: dict[str, Any]) -> None:
    """Asserts that results are as expected: outputs by step and topic in order, and all stores at the end."""
    wanted, error = vector.get("error"), got.get("error")
    if wanted is not None or error is not None:
        assert wanted is not None, f"unexpected error {error}"
        assert error is not None, f"expected an error at step {wanted['step']}: {wanted['message']}"
        assert error["step"] == wanted["step"], (error, wanted)
        return
    assert len(got["outputs"]) == len(vector["outputs"])
    for index, (expected, given) in enumerate(zip(vector["outputs"], got["outputs"], strict=True)):
        wanted_topics, given_topics = by_topic(expected), by_topic(given)
        for topic in sorted(wanted_topics.keys() | given_topics.keys()):
            left, right = wanted_topics.get(topic, []), given_topics.get(topic, [])
            assert text(left) == text(right), f"step {index} {text(vector['inputs'][index])}, topic {topic}"
    for name in sorted(vector["stores"].keys() | got["stores"].keys()):
        assert text(vector["stores"].get(name)) == text(got["stores"].get(name)), f"store {name}"
