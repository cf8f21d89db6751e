"""Test files of SQL statements with ``--@`` directives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from millstream.core.frozen import Frozen

_HERE = Path()
_DIRECTIVE = re.compile(r"\s*--@([a-z.]+):?\s*(.*)")


class SqlCase(Frozen):
    """A case of a SQL test file: its statements, and the error that one of them must end with.

    Attributes:
        name: The stem of the file and the title of the case.
        text: The statements.
        line: The line of the file on which the text starts.
        expected_error: The Java class of the error; None in a positive case.
        expected_message: A part of the message.
        folder: The folder of the file, from which RUN SCRIPT reads relative paths.
    """

    name: str
    text: str
    line: int
    expected_error: str | None = None
    expected_message: str = ""
    folder: Path = _HERE

    @property
    def negative(self) -> bool:
        """Whether a statement must fail."""
        return self.expected_error is not None or bool(self.expected_message)


def read_sql(text: str, stem: str, folder: Path = _HERE) -> Iterator[SqlCase]:
    r"""Yields the cases of a file. A title that occurs again gets a number.

    >>> [case.name for case in read_sql("--@test: a\nSHOW TABLES;\n--@test: a\n", "file")]
    ['file - a', 'file - a #2']
    """
    titles: Counter[str] = Counter()
    title: str | None = None
    lines: list[str] = []
    first = 1
    error, message = None, ""
    for number, line in enumerate([*text.split("\n"), "--@test: "], 1):
        directive = _DIRECTIVE.match(line)
        if directive is not None and directive[1] == "test":
            if title is not None:
                titles[title] += 1
                suffix = f" #{titles[title]}" if titles[title] > 1 else ""
                yield SqlCase(f"{stem} - {title}{suffix}", "\n".join(lines), first, error, message, folder)
            title, lines, first, error, message = directive[2].strip(), [], number + 1, None, ""
            continue
        if directive is not None and directive[1] == "expected.error":
            error = directive[2].strip().rpartition(".")[2]
        elif directive is not None and directive[1] == "expected.message":
            message = directive[2].strip()
        lines.append(line)
