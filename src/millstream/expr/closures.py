"""The closures that expressions are compiled to.

Each closure takes one argument, the row, and returns the value of its part of the expression. The most common shapes (a
field of the row, an operator with a constant) have their own closures, because a Python call costs more than the work
inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.expr.logic import member
from millstream.expr.values import read_field, retry

Run = Callable[[Any], Any]


class Constant:
    """A closure whose result does not depend on the row."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, row: Any) -> Any:
        return self.value


def adapt(run: Run, count: int, only: int | None) -> Callable[..., Any]:
    """Returns a function of ``count`` parameters; the row is the parameter at ``only``, or the tuple of all of them."""
    if count == 0:
        return lambda: run(None)
    if count == 1:
        return run
    if count <= len(_ADAPTERS) + 1:
        return _ADAPTERS[count - 2](run)[count if only is None else only]

    def many(*row: Any) -> Any:
        if len(row) != count:
            raise TypeError(f"expected {count} arguments, not {len(row)}")
        return run(row if only is None else row[only])

    return many


# For two and three parameters: the row is the first, the second, ..., all of them.
_ADAPTERS: tuple[Callable[[Run], tuple[Callable[..., Any], ...]], ...] = (
    lambda run: (lambda a, _b: run(a), lambda _a, b: run(b), lambda a, b: run((a, b))),
    lambda run: (
        lambda a, _b, _c: run(a),
        lambda _a, b, _c: run(b),
        lambda _a, _b, c: run(c),
        lambda a, b, c: run((a, b, c)),
    ),
)


def folded(run: Run, args: list[Run]) -> Run:
    """Evaluates a call of constants once. A call that fails is not folded, and fails for each record.

    Lists and dicts are not folded either: a record may change its own.
    """
    if not all(isinstance(arg, Constant) for arg in args):
        return run
    try:
        result = run(None)
    except Exception:  # noqa: BLE001 - any error belongs to the record that is evaluated
        return run
    return run if isinstance(result, list | dict) else Constant(result)


def field_of_row(name: str) -> Run:
    """A field of the row itself."""
    return lambda row: row.get(name) if type(row) is dict else read_field(row, name)


def field_of(base: Run, name: str) -> Run:
    """A field of the result of another closure."""

    def run(row: Any) -> Any:
        value = base(row)
        return value.get(name) if type(value) is dict else read_field(value, name)

    return run


def field_with_constant(function: Callable[..., Any], name: str, constant: Any) -> Run:
    """A strict call of a field of the row and a constant."""
    if constant is None:
        return Constant(None)

    def run(row: Any) -> Any:
        value = row.get(name) if type(row) is dict else read_field(row, name)
        if value is None:
            return None
        try:
            return function(value, constant)
        except (TypeError, AttributeError) as error:
            return retry(function, (value, constant), error)

    return run


def strict(function: Callable[..., Any], args: list[Run]) -> Run:
    """A call that is null if an argument is null. Arguments after a null one are not evaluated."""
    if any(isinstance(arg, Constant) and arg.value is None for arg in args):
        return Constant(None)
    if len(args) == 1:
        run = _strict_unary(function, args[0])
    elif len(args) == 2:
        right = args[1]
        run = (
            _strict_with_constant(function, args[0], right.value)
            if isinstance(right, Constant)
            else _strict_binary(function, args[0], right)
        )
    else:
        run = _strict_many(function, args)
    return folded(run, args)


def _strict_unary(function: Callable[..., Any], arg: Run) -> Run:
    def run(row: Any) -> Any:
        value = arg(row)
        if value is None:
            return None
        try:
            return function(value)
        except (TypeError, AttributeError) as error:
            return retry(function, (value,), error)

    return run


def _strict_with_constant(function: Callable[..., Any], left: Run, right: Any) -> Run:
    def run(row: Any) -> Any:
        value = left(row)
        if value is None:
            return None
        try:
            return function(value, right)
        except (TypeError, AttributeError) as error:
            return retry(function, (value, right), error)

    return run


def _strict_binary(function: Callable[..., Any], left: Run, right: Run) -> Run:
    def run(row: Any) -> Any:
        a = left(row)
        if a is None:
            return None
        b = right(row)
        if b is None:
            return None
        try:
            return function(a, b)
        except (TypeError, AttributeError) as error:
            return retry(function, (a, b), error)

    return run


def _strict_many(function: Callable[..., Any], args: list[Run]) -> Run:
    def run(row: Any) -> Any:
        values = []
        for arg in args:
            value = arg(row)
            if value is None:
                return None
            values.append(value)
        try:
            return function(*values)
        except (TypeError, AttributeError) as error:
            return retry(function, tuple(values), error)

    return run


def plain_call(function: Callable[..., Any], args: list[Run]) -> Run:
    """A call whose function handles nulls."""
    if len(args) == 1:
        only = args[0]
        return lambda row: function(only(row))

    def run(row: Any) -> Any:
        values = [arg(row) for arg in args]
        try:
            return function(*values)
        except (TypeError, AttributeError) as error:
            return retry(function, tuple(values), error)

    return run


def struct(fields: list[tuple[str, Run]]) -> Run:
    """A new dict."""

    def run(row: Any) -> dict[str, Any]:
        result = {}
        for name, field in fields:
            result[name] = field(row)
        return result

    return run


def case(branches: list[tuple[Run, Run]], default: Run) -> Run:
    """The result of the first condition that is true."""
    if len(branches) == 1:
        ((when, then),) = branches
        return lambda row: then(row) if when(row) else default(row)

    def run(row: Any) -> Any:
        for when, then in branches:
            if when(row):
                return then(row)
        return default(row)

    return run


def _and(args: list[Run]) -> Run:
    left, right = args

    def run(row: Any) -> bool | None:
        a = left(row)
        if not a and a is not None:
            return False
        b = right(row)
        if not b and b is not None:
            return False
        return None if a is None or b is None else True

    return run


def _or(args: list[Run]) -> Run:
    left, right = args

    def run(row: Any) -> bool | None:
        a = left(row)
        if a:
            return True
        b = right(row)
        if b:
            return True
        return None if a is None or b is None else False

    return run


def _coalesce(args: list[Run]) -> Run:
    def run(row: Any) -> Any:
        for arg in args:
            value = arg(row)
            if value is not None:
                return value
        return None

    return run


def _try(args: list[Run]) -> Run:
    (arg,) = args

    def run(row: Any) -> Any:
        try:
            return arg(row)
        except Exception:  # noqa: BLE001 - TRY turns every error into null
            return None

    return run


def _in(args: list[Run]) -> Run:
    """Looks up constant options in a set. Values of other types are compared with each option."""
    value, options = args[0], [arg.value for arg in args[1:] if isinstance(arg, Constant)]
    if len(options) < len(args) - 1 or not all(isinstance(o, str | int | float | bytes) for o in options):
        return folded(plain_call(member, args), args)
    lookup_set, types = frozenset(options), frozenset(map(type, options))

    def run(row: Any) -> bool | None:
        item = value(row)
        if item is None:
            return None
        if type(item) in types:
            return item in lookup_set
        return member(item, *options)

    return run


LAZY: dict[str, Callable[[list[Run]], Run]] = {
    "and": _and,
    "or": _or,
    "coalesce": _coalesce,
    "ifnull": _coalesce,
    "try": _try,
    "in": _in,
}
