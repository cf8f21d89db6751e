"""The types of the arguments of a call, as the binder gives them to a function."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Literal

from millstream.core.frozen import Frozen
from millstream.sql.types import SqlType


class _Missing(Enum):
    MISSING = "MISSING"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing.MISSING
"""The argument is no literal."""

Missing = Literal[_Missing.MISSING]


class TypedArgument(Frozen):
    """An argument with a value.

    Attributes:
        type: Its type; None for the literal NULL.
        literal: Its value if it is a literal (a leading minus belongs to it), else MISSING.
        parts: The items of a constructor, for the coercion of literals in it: ``(elements,)`` of ARRAY[…],
            ``(keys, values)`` of MAP(…), one tuple with one item for each field of STRUCT(…).
    """

    type: SqlType | None
    literal: Any = MISSING
    parts: tuple[tuple[TypedArgument, ...], ...] = ()

    @property
    def is_literal(self) -> bool:
        """Whether the argument is a literal."""
        return self.literal is not MISSING

    def __str__(self) -> str:
        return "null" if self.type is None else str(self.type)


class LambdaArgument(Frozen):
    """A lambda.

    Its value at run time is a Python callable of `arity` values.

    Attributes:
        arity: The number of its parameters.
        infer: Types the body, given the types of the parameters. It may raise a SqlStatementError.
    """

    arity: int
    infer: Callable[[tuple[SqlType, ...]], SqlType]

    def __str__(self) -> str:
        return "LAMBDA"


class UnitArgument(Frozen):
    """A unit of time: DAY, HOUR, MINUTE, SECOND or MILLISECOND. Its value at run time is this text."""

    unit: str

    def __str__(self) -> str:
        return "INTERVALUNIT"


Argument = TypedArgument | LambdaArgument | UnitArgument
