"""The functions of expressions, one for each row of the catalog.

Names that are Python keywords end in an underscore: ``try_``, ``and_``, ``or_``, ``not_``, ``in_``.
The examples call ``evaluate``, which evaluates an expression at once.

>>> from millstream.expr import col
>>> print(upper(trim(col("name"))))
upper(trim(name))
"""

from __future__ import annotations

from collections.abc import Callable
from keyword import iskeyword

from millstream.errors import suggestion
from millstream.expr.catalog import CATALOG
from millstream.expr.signature import Function
from millstream.expr.tree import Call, Expr, Operand, to_expr

__all__: list[str] = []


def _public(name: str, function: Function) -> Callable[..., Expr]:
    def build(*args: Operand) -> Expr:
        return Call(function.name, tuple(map(to_expr, args)))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{function.doc}\n\n{function.signature}"
    if function.example:
        call, _, result = function.example.partition(" -> ")
        shown = "" if result == "None" else f"\n{result}"
        build.__doc__ += f"\n\n>>> from millstream.expr import evaluate, lit\n>>> evaluate({call}){shown}\n"
    return build


def __getattr__(name: str) -> Callable[..., Expr]:
    """Raises AttributeError with a suggestion. Python calls it only for names that do not exist."""
    similar = suggestion(name, __all__)
    raise AttributeError(f"there is no function {name!r}" + (f"; {similar}" if similar else ""))


for _name, _function in CATALOG.items():
    if _name.isidentifier():
        _shown = f"{_name}_" if iskeyword(_name) else _name
        globals()[_shown] = _public(_shown, _function)
        __all__.append(_shown)  # noqa: PYI056 - the names are those of the catalog
