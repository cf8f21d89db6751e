"""Counts words: the "hello, world" of stream processing.

Each line of text is split into words. Grouping by word changes the key, so the records are repartitioned by word. The
counts are in a store, which can be queried while the application runs. Every change of a count is written to the topic
``word-counts``.
"""

from __future__ import annotations

import re

from millstream import App


def words_of(line: str | None) -> list[str]:
    """Returns the words of a line in lower case; none for a null value."""
    return re.findall(r"\w+", line.lower()) if line else []


app = App("word-count")

words = app.stream("lines", value=str).flat_map_values(words_of, value=str)
counts = words.group_by(lambda word: word, key=str).count(store="counts")
counts.to_stream().to("word-counts")

if __name__ == "__main__":
    app.run()
