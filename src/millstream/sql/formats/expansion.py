"""Limits the types that schemas are expanded into."""

from __future__ import annotations

from millstream.errors import InvalidSchemaError

MOST_PARTS = 10_000
DEEPEST = 100


class Expansion:
    """Counts the parts of one type while a schema is expanded into it.

    References can make the type exponentially larger than the text of the schema: a record that contains two of the
    next kind, which contains two of the next kind.
    """

    def __init__(self) -> None:
        self._parts = 0

    def part(self, depth: int) -> None:
        """Counts a part.

        Raises:
            InvalidSchemaError: The type is too large, or nested too deeply.
        """
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise InvalidSchemaError(f"the type of the schema has more than {MOST_PARTS:,} parts")
        if depth > DEEPEST:
            raise InvalidSchemaError(f"the type of the schema is nested more than {DEEPEST} levels deep")
