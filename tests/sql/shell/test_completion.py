"""Completion of keywords, names and columns."""

from __future__ import annotations

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from millstream.sql.shell.completion import SqlCompleter
from millstream.sql.testing.local import LocalEngine

CATALOG = """
    CREATE TYPE place AS STRUCT<x INT, y INT>;
    CREATE STREAM pageviews (userid STRING KEY, page STRING, `Page no` INT, h BYTES HEADER('h'))
        WITH (kafka_topic='page-views', value_format='JSON', partitions=1);
    CREATE TABLE pages AS SELECT page, COUNT(*) AS views FROM pageviews GROUP BY page;
"""


@pytest.fixture(scope="module")
def completer() -> SqlCompleter:
    handler = LocalEngine({}).handler
    handler.statements(CATALOG)
    return SqlCompleter(handler.session, lambda: ["page-views", "PAGES"])


def offered(completer: SqlCompleter, text: str) -> list[tuple[str, str]]:
    """The texts that are offered at the end of a text when a person asks for them, and what each names."""
    completions = completer.get_completions(Document(text), CompleteEvent(completion_requested=True))
    return [(completion.text, completion.display_meta_text) for completion in completions]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("SHOW QUER", ("QUERIES", "keyword")),
        ("show quer", ("queries", "keyword")),
        ("SELECT * FROM page", ("PAGES", "table")),
        ("SELECT * FROM pagev", ("PAGEVIEWS", "stream")),
        ("DROP TABLE ", ("PAGES", "table")),
        ("INSERT INTO pagev", ("PAGEVIEWS", "stream")),
        ("SELECT use", ("USERID", "column")),
        ("SELECT vi", ("VIEWS", "column")),
        ("SELECT `Pa", ("`Page no`", "column")),
        ("SELECT userid, uca", ("ucase", "function")),
        ("CREATE STREAM s (p pla", ("PLACE", "type")),
        ("TERMINATE ", ("CTAS_PAGES_1", "query")),
        ("PRINT ", ("PAGES", "topic")),
        ("PRINT 'pa", ("'page-views'", "topic")),
        ("EXI", ("EXIT", "keyword")),
    ],
)
def test_names_that_fit_the_place_are_offered(completer: SqlCompleter, text: str, first: tuple[str, str]) -> None:
    assert first in offered(completer, text)


def test_the_likely_names_come_first(completer: SqlCompleter) -> None:
    assert [kind for _text, kind in offered(completer, "SELECT * FROM ")][:3] == ["table", "stream", "keyword"]
    assert offered(completer, "SELECT p")[0] == ("PAGE", "column")


def test_a_completion_replaces_the_word_before_the_cursor(completer: SqlCompleter) -> None:
    document = Document("SELECT * FROM pagev WHERE 1 = 1", cursor_position=len("SELECT * FROM pagev"))

    [completion] = completer.get_completions(document, CompleteEvent(text_inserted=True))

    assert (completion.text, completion.start_position) == ("PAGEVIEWS", -len("pagev"))


def test_nothing_is_offered_before_a_word_begins_or_when_it_is_complete(completer: SqlCompleter) -> None:
    assert list(completer.get_completions(Document("SELECT "), CompleteEvent(text_inserted=True))) == []
    assert offered(completer, "SELECT * FROM nothing_like_this") == []
