"""User functions in a plan: a callable or an expression, with the parts of the record that it takes.

An operator offers *roles* to its function, in order: ``("key", "value")`` for a mapper, ``("key", "left", "right")``
for a joiner. A callable takes all of them, or all but the key, by its arity; an expression names the roles that it
reads. An operator that has the whole record also offers its timestamp, to expressions, and its headers, to expressions
and to callables with a parameter named ``headers``. All of this is decided here, once, when the topology is built, so
that the engine need not check it for each record.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

from millstream.core.asynchronous import ASYNC_HINT, is_async
from millstream.core.records import Headers
from millstream.errors import TopologyError
from millstream.expr import Expr, compile_expr, roles_of, to_dict

RECORD = ("key", "value", "timestamp", "headers")
"""The roles that an operator on records of a stream can offer."""


class Function:
    """A user's function as an operator holds it.

    Attributes:
        target: The callable or the expression itself.
        roles: The roles that the operator offers, in order, the key first if it offers one.
        takes_key: The function takes the key; if not, it takes the other roles only.
        on_whole_record: The function reads the timestamp or the headers. The operator calls `on_record`.
        pure: The function only computes a result: an expression, or a callable with a true attribute ``pure``. It may
            be called for a record before operators below have processed the records before it.
    """

    __slots__ = ("on_whole_record", "pure", "roles", "takes_key", "target")

    def __init__(
        self, target: Callable[..., Any] | Expr, roles: tuple[str, ...], what: str, *, has_record: bool = False
    ) -> None:
        self.target = target
        self.roles = roles
        self.on_whole_record = has_record and _reads_whole_record(target)
        self.pure = isinstance(target, Expr) or getattr(target, "pure", False) is True
        if isinstance(target, Expr):
            self.roles = RECORD if self.on_whole_record else roles
            self.takes_key = roles[:1] == ("key",) and (self.on_whole_record or "key" in roles_of(target))
            compile_expr(target, self.parameters)
        elif is_async(target):
            raise TopologyError(f"{what}: {describe_callable(target)} is asynchronous", hint=ASYNC_HINT)
        elif callable(target):
            self.takes_key = self._accepts_key(what)
        else:
            raise TopologyError(
                f"{what}: expected a function or an expression, got {target!r} ({type(target).__name__})",
                hint=f"pass a function of {', '.join(roles)}, or an expression such as col('amount') * 2"
                if roles
                else f"pass a function without arguments, such as lambda: {target!r}",
            )

    @property
    def parameters(self) -> tuple[str, ...]:
        """The roles that the function takes."""
        return self.roles if self.takes_key or self.roles[:1] != ("key",) else self.roles[1:]

    def _accepts_key(self, what: str) -> bool:
        assert not isinstance(self.target, Expr)
        bounds = arity(self.target, ("headers",) if self.on_whole_record else ())
        allowed = {len(self.roles)}
        if self.roles[:1] == ("key",):
            allowed.add(len(self.roles) - 1)
        if bounds is None:
            return len(self.roles) not in allowed
        low, high = bounds
        if low <= len(self.roles) - 1 <= high and len(self.roles) - 1 in allowed:
            return False
        if low <= len(self.roles) <= high:
            return self.roles[:1] == ("key",)
        forms = " or ".join(f"({', '.join(self.roles[len(self.roles) - n :])})" for n in sorted(allowed))
        takes = f"{low}" if low == high else f"{low} or more"
        raise TopologyError(
            f"{what}: {self.location} takes {takes} argument{'s' if takes != '1' else ''}",
            hint=f"it is called with {forms}",
        )

    def bare(self) -> Callable[..., Any]:
        """Returns the callable, taking exactly `parameters`."""
        if isinstance(self.target, Expr):
            return compile_expr(self.target, self.parameters)
        return self.target

    def full(self) -> Callable[..., Any]:
        """Returns a callable that takes every role, the key included."""
        call = self.bare()
        if self.parameters == self.roles:
            return call
        if len(self.roles) == 2:
            return lambda _key, value: call(value)
        if len(self.roles) == 3:
            return lambda _key, first, second: call(first, second)
        return lambda _key, *rest: call(*rest)

    def on_record(self) -> Callable[[Any, Any, int, Headers], Any]:
        """Returns a callable of key, value, timestamp and headers."""
        call = self.bare()
        if not self.on_whole_record:
            if self.takes_key:
                return lambda key, value, _timestamp, _headers: call(key, value)
            return lambda _key, value, _timestamp, _headers: call(value)
        if isinstance(self.target, Expr):
            return call
        if self.takes_key:
            return lambda key, value, _timestamp, headers: call(key, value, headers=headers)
        return lambda _key, value, _timestamp, headers: call(value, headers=headers)

    @property
    def for_all(self) -> Callable[..., list[Any]] | None:
        """The form of a pure callable that takes columns of many records, and returns the list of results.

        A callable has it as its attribute ``for_all``, with the parameters of the callable as columns. If it raises,
        the callable is called for each record instead.
        """
        return getattr(self.target, "for_all", None) if self.pure else None

    @property
    def location(self) -> str:
        """The location of the function, ``orders.py:12 in <lambda>``, or the text of the expression."""
        return describe_callable(self.target)

    def fingerprint(self) -> object:
        """Returns the part of the function that a plan's fingerprint covers: an expression, or None for a callable."""
        return to_dict(self.target) if isinstance(self.target, Expr) else None

    def __repr__(self) -> str:
        return f"Function({self.location})"


def _reads_whole_record(target: Any) -> bool:
    """Whether a function reads the timestamp or the headers of a record."""
    if isinstance(target, Expr):
        return bool(roles_of(target) & {"timestamp", "headers"})
    import inspect  # noqa: PLC0415  (only a topology that is built needs it)

    try:
        parameter = inspect.signature(target).parameters.get("headers")
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}


def arity(target: Callable[..., Any], by_name: tuple[str, ...] = ()) -> tuple[int, int] | None:
    """Returns the least and the greatest number of positional arguments of a callable; None if they are unknown.

    Parameters in ``by_name`` do not count: they are passed by name.

    >>> arity(lambda k, v: v), arity(str.split), arity(print)
    ((2, 2), (1, 3), (0, 9))
    """
    import inspect  # noqa: PLC0415  (only a topology that is built needs it)

    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return None
    needed = possible = 0
    for p in parameters:
        if p.name in by_name:
            continue
        if p.kind is p.VAR_POSITIONAL:
            possible = max(possible, 9)
        elif p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}:
            possible += 1
            needed += p.default is p.empty
        elif p.kind is p.KEYWORD_ONLY and p.default is p.empty:
            raise TopologyError(
                f"{describe_callable(target)} needs the keyword argument {p.name!r}",
                hint=f"it is called by position: use functools.partial(…, {p.name}=…)",
            )
    return needed, possible


def describe_callable(target: object) -> str:
    """Returns the location of a function for messages: file, line and name."""
    if isinstance(target, Expr):
        return str(target)
    import inspect  # noqa: PLC0415

    inner = inspect.unwrap(target) if callable(target) else target
    while hasattr(inner, "func"):  # functools.partial
        inner = inner.func
    code = getattr(inner, "__code__", None) or getattr(vars(type(inner)).get("__call__"), "__code__", None)
    name = getattr(inner, "__qualname__", type(inner).__qualname__).rsplit(".", 1)[-1]
    if code is None:
        return f"{getattr(inner, '__module__', None) or 'builtins'}.{name}"
    return f"{Path(code.co_filename).name}:{code.co_firstlineno} in {name}"


def annotated_result(target: object) -> Any:
    """Returns the result type of a function's annotation, or None if it has none or an unspecific one.

    >>> def total(order: dict) -> int: ...
    >>> annotated_result(total), annotated_result(lambda v: v)
    (<class 'int'>, None)
    """
    if isinstance(target, type) and target in {str, int, float, bool, bytes}:
        return target
    if target is len:
        return int
    if not isinstance(target, FunctionType) or "return" not in target.__annotations__:
        return None
    try:
        hint = typing.get_type_hints(target)["return"]
    except Exception:  # noqa: BLE001  (an annotation that cannot be resolved is treated as missing)
        return None
    return None if hint in {Any, object, type(None)} or isinstance(hint, typing.TypeVar) else hint
