"""Durations: numbers of milliseconds, timedeltas, and text."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from millstream.core.durations import show_ms, to_ms
from millstream.errors import DurationError, MillstreamError


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        (0, 0),
        (250, 250),
        (-5, -5),
        ("500ms", 500),
        ("5s", 5_000),
        ("10m", 600_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("1w", 604_800_000),
        ("1h30m", 5_400_000),
        ("1m500ms", 60_500),
        ("-5s", -5_000),
        (" 5s ", 5_000),
        ("0s", 0),
        (timedelta(seconds=2), 2_000),
        (timedelta(days=-1), -86_400_000),
        (timedelta(microseconds=1_500), 1),
    ],
)
def test_durations_are_converted_to_milliseconds(given: Any, ms: int) -> None:
    assert to_ms(given) == ms


@pytest.mark.parametrize(
    "given",
    ["", "soon", "5", "5 s", "5S", "s", "1.5s", "5s5", "--5s", "-", "5µs", "1e3ms", "5s\0", True, None, 1.5, [], b"5s"],
)
def test_invalid_durations_are_refused_with_a_hint(given: Any) -> None:
    with pytest.raises(DurationError, match=r"(?s)grace: cannot read .*hint: write milliseconds") as caught:
        to_ms(given, "grace")
    assert isinstance(caught.value, (MillstreamError, ValueError))
    assert caught.value.code == "duration"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0ms"),
        (1, "1ms"),
        (1_500, "1s500ms"),
        (60_000, "1m"),
        (5_400_000, "1h30m"),
        (90_000_000, "1d1h"),
        (-5, "-5ms"),
    ],
)
def test_milliseconds_are_shown_with_units(ms: int, text: str) -> None:
    assert show_ms(ms) == text


@pytest.mark.parametrize("ms", [1, 999, 61_001, 90_061_001, 10**12])
def test_shown_durations_can_be_parsed(ms: int) -> None:
    assert to_ms(show_ms(ms)) == ms


@pytest.mark.parametrize("duration", [2**63, -(2**63), "15250284453w"])
def test_durations_that_64_bits_cannot_hold_are_refused(duration: Any) -> None:
    with pytest.raises(DurationError, match="is too long"):
        to_ms(duration, "size")
    assert to_ms(2**63 - 1) == 2**63 - 1
