"""Counts words: the "hello, world" of stream processing.

Lines of text come in, and each is split into words. The stream is grouped by word, which gives it a new key, so the
words are dealt to the tasks anew; then each word is counted in a store, which can be queried while the application
runs. Every change of a count goes to the topic ``word-counts``.
"""

from __future__ import annotations

import re

from millstream import App


def words_of(line: str | None) -> list[str]:
    """The words of a line, in lower case; a line without a value has none."""
    return re.findall(r"\w+", line.lower()) if line else []


app = App("word-count")

words = app.stream("lines", value=str).flat_map_values(words_of, value=str)
counts = words.group_by(lambda word: word, key=str).count(store="counts")
counts.to_stream().to("word-counts")

if __name__ == "__main__":
    app.run()
