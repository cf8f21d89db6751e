"""Text from records and exceptions is escaped before it is printed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from millstream.errors import ProcessingError, TopologyError
from millstream.text import escaping as text

EVIL = "\x1b]0;x\x07\x9b31m\x7f\u2028\u202e\u2066\u200b\ufeff\ud800\U000e0041\r"
"""Terminal commands in C0 and C1, DEL, a line separator, bidirectional marks, zero-width characters, a lone surrogate,
a tag, and a carriage return."""

ANY = st.text(st.characters())


@given(ANY)
def test_a_line_has_only_printable_characters(given: str) -> None:
    assert text.printable(given).isprintable()


@given(ANY)
def test_only_the_first_line_of_a_message_is_at_the_margin(given: str) -> None:
    first, *rest = text.readable(given).split("\n")
    assert all(line.replace("\t", "").isprintable() for line in [first, *rest])
    assert all(not line or line.startswith("    ") for line in rest)
    assert text.readable(text.readable(given)) == text.readable(given)


@given(ANY)
def test_no_line_of_a_trace_is_at_the_margin(given: str) -> None:
    assert all(line.startswith("    ") for line in text.indented(given).split("\n"))


@given(ANY | st.dictionaries(ANY, st.lists(ANY)))
def test_json_is_printable_and_loses_nothing(given: object) -> None:
    shown = text.json_text(given)
    assert shown.isprintable()
    assert json.loads(shown) == given


def test_every_kind_of_control_character_is_escaped() -> None:
    assert text.printable(EVIL) == (r"\x1b]0;x\x07\x9b31m\x7f\u2028\u202e\u2066\u200b\ufeff\ud800\U000e0041\r")
    assert text.printable("Zoë 北京 العربية 🙂 [bold]") == "Zoë 北京 العربية 🙂 [bold]"


def test_json_refuses_numbers_that_it_lacks() -> None:
    with pytest.raises(ValueError, match="JSON"):
        text.json_text({"a": float("nan")})


def test_lines_of_a_message_keep_their_indentation() -> None:
    shown = text.readable("it cannot go on:\nstores\n  counts\n      - why\n\nend")
    assert shown == "it cannot go on:\n    stores\n      counts\n          - why\n\n    end"
    assert text.readable(f"because {shown}") == f"because {shown}"


def test_long_texts_keep_their_beginning_and_their_end() -> None:
    shown = text.readable("begin" + "x" * 50_000_000 + "end")
    assert len(shown) < text.MESSAGE + 100
    assert shown.startswith("beginxxx")
    assert shown.endswith("xxxend")
    assert "(49996008 characters left out)" in shown


def test_errors_contain_no_control_characters_and_no_forged_lines() -> None:
    error = ProcessingError(f"it failed: {EVIL}\nerror: rm -rf\n  hint: do it", hint=f"see {EVIL}\nerror: x")
    assert all(line.isprintable() for line in str(error).split("\n"))
    lines = str(error).split("\n")
    assert lines[1:3] == ["    error: rm -rf", "      hint: do it"]
    assert lines[3].startswith("  hint: see ")
    assert lines[4] == "    error: x"
    assert error.args == (error.message,)
    assert TopologyError("x", at=f"a{EVIL}.py:1").at.isprintable()


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text today")


def test_an_exception_without_a_text_is_shown_by_its_class() -> None:
    assert text.error_text(UnreadableError()) == "UnreadableError: (its text cannot be read)"
    assert "Unreadable" in text.trace_text(UnreadableError())
