"""Variables: ``${name}`` in strings, and in the place of identifiers and literals.

A variable never changes the structure of a statement: its value becomes one identifier, one literal, or a part of one
string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from millstream.errors import SqlSyntaxError, suggestion
from millstream.sql.syntax.tree import Position

_REFERENCE = re.compile(r"\$(\$\{[^{}]*\})|\$\{([A-Za-z_][A-Za-z0-9_@]*)\}")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_@]*")
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[Ee][+-]?[0-9]+)?")


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """Replaces ``${name}`` in the contents of a string. Unknown variables stay, and ``$${name}`` gives ``${name}``.

    The names of variables have no case; ``variables`` has them in upper case.

    >>> substitute("${env}-orders, ${other}, $${env}", {"ENV": "prod"})
    'prod-orders, ${other}, ${env}'
    """
    if "${" not in text:
        return text
    return _REFERENCE.sub(lambda found: found[1] or variables.get(found[2].upper(), found[0]), text)


def value_of(reference: str, variables: Mapping[str, str], at: Position) -> str:
    """Returns the value of ``${name}``, which must be defined."""
    name = reference[2:-1].upper()
    if name not in variables:
        hint = suggestion(name, variables) or f"define it before: DEFINE {name} = '…';"
        raise SqlSyntaxError(f"the variable {name} is not defined", at=at, hint=hint)
    return variables[name]


def identifier_text(value: str, at: Position) -> str:
    """Returns the value of a variable in the place of an identifier: a plain or a quoted one."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in '`"'
    if not _IDENTIFIER.fullmatch(value[1:-1] if quoted else value):
        raise SqlSyntaxError(
            f"Illegal argument. Identifier names cannot start with '@' and may only contain alphanumeric values and"
            f" '_'. Got: '{value}'",
            at=at,
        )
    return value


def literal_text(value: str, at: Position) -> str:
    """Returns the value of a variable in the place of a literal: a number, TRUE, FALSE or a quoted text."""
    if len(value) > 1 and value[0] == value[-1] == "'":
        return "'" + value[1:-1].replace("''", "'").replace("'", "''") + "'"
    if value.upper() in {"TRUE", "FALSE"} or _NUMBER.fullmatch(value):
        return value
    raise SqlSyntaxError(
        f"Illegal argument. Got: '{value}'", at=at, hint="a text needs quotes of its own: DEFINE name = '''text''';"
    )
