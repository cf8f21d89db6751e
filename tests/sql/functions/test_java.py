"""What Java's library shows through SQL: text of numbers, hash order, patterns, and the limits of searches."""

from __future__ import annotations

import time
from typing import Any

import pytest

from millstream.sql.functions.java import regex
from millstream.sql.functions.java.calendar import civil_from_days, days_from_civil
from millstream.sql.functions.java.hashing import hash_order
from millstream.sql.functions.java.text import double_text
from millstream.sql.functions.java.time_format import format_timestamp
from millstream.sql.functions.java.uri import parse_uri
from millstream.sql.functions.java.zones import zone_of
from millstream.sql.types import BIGINT, BOOLEAN, STRING


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (9999999.999, "9999999.999"),
        (1e7, "1.0E7"),
        (0.001, "0.001"),
        (9.99e-4, "9.99E-4"),
        (123456789012.0, "1.23456789012E11"),
        (5e-324, "4.9E-324"),
        (2e23, "2.0E23"),
        (2.0**62, "4.6116860184273879E18"),
        (-(2.0**54), "-1.8014398509481984E16"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_print_as_in_java(value: Any, text: Any) -> None:
    assert double_text(value) == text


def test_keys_come_in_the_order_of_a_hash_map() -> None:
    assert hash_order(["eta", "alpha", "zeta"], STRING) == ["zeta", "eta", "alpha"]
    assert hash_order([33, 17, 2], BIGINT) == [33, 17, 2]
    assert hash_order([True, False], BOOLEAN) == [False, True]


def test_a_pattern_that_backtracks_ends_within_the_limit(monkeypatch: Any) -> None:
    monkeypatch.setattr(regex, "TIMEOUT", 0.2)
    start = time.process_time()
    with pytest.raises(TimeoutError):
        regex.find("(a|aa)+$", "a" * 60 + "!")
    assert time.process_time() - start < 2
    assert regex.find("(a+)+$", "a" * 28 + "!") is None


def test_a_pattern_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 10000"):
        regex.compile_pattern("a" * 10_001)


@pytest.mark.parametrize(
    ("text", "pattern", "replacement", "expected"),
    [
        ("a\nb", "a.b", "!", "a\nb"),
        ("a\nb", "(?s)a.b", "!", "!"),
        ("é1", r"\w", "!", "é!"),
        ("ab12", r"[\w&&[^\d]]", "!", "!!12"),
        ("a\u00a0b", r"\h", "!", "a!b"),
        ("a.b", r"\Q.\E", "-", "a-b"),
        ("Aa", r"\p{Lu}", "!", "!a"),
        ("end\n", r"d\Z", "!", "en!\n"),
        ("end\n", r"d\z", "!", "end\n"),
        ("aab", "a++b", "!", "!"),
        ("x", r"\x{78}", "!", "!"),
    ],
)
def test_patterns_of_java(text: Any, pattern: Any, replacement: Any, expected: Any) -> None:
    assert regex.replace_all(text, pattern, replacement) == expected


@pytest.mark.parametrize("text", ["", "/p", "?q", "//h", "x:y", "file:///a"])
def test_uris_that_have_few_parts(text: Any) -> None:
    parse_uri(text)


@pytest.mark.parametrize(
    "text", ["http:", "http://", "1http://h", ":x", "http://h/%zz", "http://h/a b", "http://h/[x]"]
)
def test_malformed_uris(text: Any) -> None:
    with pytest.raises(ValueError, match="invalid syntax"):
        parse_uri(text)


def test_days_and_dates_agree_over_eras() -> None:
    for days in range(-1_000_000, 3_000_000, 997):
        assert days_from_civil(*civil_from_days(days)) == days


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yy M d H k K h", "20 5 1 10 10 10 10"),
        ("EEEE, MMMM", "Friday, May"),
        ("D DDD Q QQQ", "122 122 2 Q2"),
        ("S SSS SSSSSS", "1 123 123000"),
        ("X XX XXX x Z", "+02 +0200 +02:00 +02 +0200"),
        ("VV z OOOO", "Europe/Berlin CEST GMT+02:00"),
        ("uuuu G ''yyyy''", "2020 AD '2020'"),
        ("YYYY-'W'ww", "2020-W18"),
    ],
)
def test_patterns_of_java_time(pattern: Any, expected: Any) -> None:
    assert format_timestamp(1588320000123, pattern, zone_of("Europe/Berlin")) == expected
