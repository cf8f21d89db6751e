"""The rule for names of topics, stores, operators and applications: Kafka's rule for topics."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.core.names import check_name
from millstream.errors import InvalidNameError, MillstreamError


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "-", "_", "x" * 249, "word-counts"])
def test_legal_names_are_returned_unchanged(name: str) -> None:
    assert check_name(name, "topic") == name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "it is empty"),
        (".", "reserved"),
        ("..", "reserved"),
        ("../x", "'/' may not occur"),
        ("a/b", "'/' may not occur"),
        ("a\\b", "may not occur"),
        ("a b", "' ' may not occur"),
        ("a\0b", r"may not occur"),
        ("a\nb", r"may not occur"),
        ("a\n", r"may not occur"),
        ("a:b", "':' may not occur"),
        ("café", "'é' may not occur"),
        ("ａ", "may not occur"),
        ("٣", "may not occur"),
        ("x" * 250, "it has 250 characters"),
        (None, "it is a NoneType, not a string"),
        (5, "it is a int, not a string"),
        (b"a", "it is a bytes, not a string"),
    ],
)
def test_illegal_names_are_refused_with_the_reason(name: Any, problem: str) -> None:
    with pytest.raises(InvalidNameError, match=rf"store name .* is not allowed: .*{problem}") as caught:
        check_name(name, "store")
    assert isinstance(caught.value, MillstreamError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.code == "invalid-name"
    assert "at most 249 characters" in (caught.value.hint or "")


def test_the_error_is_one_short_line_for_every_name() -> None:
    with pytest.raises(InvalidNameError) as caught:
        check_name("a\n" * 10_000, "topic")
    assert len(caught.value.message) < 200
    assert "\n" not in caught.value.message
