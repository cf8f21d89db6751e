"""The hierarchy of errors: one root, stable codes, hints, and the line of user code."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from millstream import App, MillstreamError, TopologyError, errors


def subclasses(cls: type[MillstreamError]) -> list[type[MillstreamError]]:
    return [cls, *(below for child in cls.__subclasses__() for below in subclasses(child))]


OWN = [cls for cls in subclasses(MillstreamError) if cls.__module__ == "millstream.errors"]


def test_every_error_has_a_unique_code() -> None:
    codes = [cls.__dict__.get("code") for cls in OWN]
    assert None not in codes
    assert len(set(codes)) == len(codes)


def test_every_public_error_is_in_the_tree() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    classes = [cls for cls in classes if not issubclass(cls, Warning)]
    assert set(classes) <= set(OWN)


@pytest.mark.parametrize("cls", OWN, ids=lambda cls: cls.__name__)
def test_an_error_shows_its_message_and_hint(cls: type[MillstreamError]) -> None:
    error = cls("it broke", hint="mend it")
    assert (error.message, error.hint) == ("it broke", "mend it")
    assert str(error).endswith("it broke\n  hint: mend it")
    assert str(cls("it broke")).endswith("it broke")


@pytest.mark.parametrize("cls", OWN, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("through", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickle", "copy"])
def test_an_error_can_be_pickled_and_copied(cls: type[MillstreamError], through: Any) -> None:
    error = cls("it broke", hint="mend it")
    again = through(error)
    assert (type(again), str(again), again.hint) == (cls, str(error), "mend it")


def test_a_topology_error_begins_with_the_users_line() -> None:
    number: Any = 5
    with pytest.raises(TopologyError) as caught:
        App("errors").stream("in").map_values(number)
    line = caught.traceback[0].lineno + 1
    assert caught.value.at == f"test_errors.py:{line}"
    assert str(caught.value).startswith(f"test_errors.py:{line}: map_values: ")


@pytest.mark.parametrize("word", ["cuonts", "count", "Counts", "counts-"])
def test_a_misspelt_word_gets_a_suggestion(word: str) -> None:
    assert errors.suggestion(word, ["totals", "counts"]) == "did you mean 'counts'?"


@pytest.mark.parametrize("word", ["", "orders", "zzz"])
def test_a_word_without_a_similar_one_gets_no_suggestion(word: str) -> None:
    assert errors.suggestion(word, ["totals", "counts"]) is None
