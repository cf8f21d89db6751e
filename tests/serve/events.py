"""Takes events of streams, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.serve.client import Event

EVENTS = "/api/v1/events"

OF_THE_STREAM = {"missed", "ended", "end"}
"""The kinds of events that tell of losses and ends."""


def begun(events: Iterator[Event]) -> Event:
    """The first event: from then on, nothing is left out."""
    first = next(events)
    assert first.kind == "subscribed"
    return first


def take(events: Iterator[Event], count: int, holds: Callable[[Event], bool] = lambda _: True) -> list[Event]:
    """The next events for which something holds. Nothing may be missed meanwhile."""
    taken: list[Event] = []
    for event in events:
        assert event.kind not in OF_THE_STREAM, event
        if event.kind != "subscribed" and holds(event):
            taken.append(event)
        if len(taken) == count:
            break
    return taken


def of_kind(events: Iterator[Event], kind: str, count: int = 1) -> list[Event]:
    """The next events of a kind."""
    return take(events, count, lambda event: event.kind == kind)
