"""User functions: Python functions and classes that SQL statements can call.

Types come from annotations: int is BIGINT, float DOUBLE, str STRING, bool BOOLEAN, bytes BYTES, ``Annotated[Decimal,
Digits(p, s)]`` DECIMAL(p, s), list ARRAY, dict MAP, a dataclass STRUCT with the names of its fields in upper case. A
parameter ``T | None`` gets NULLs; a NULL for another one makes the result NULL without a call. A signature as text
goes before annotations; its values are passed as `millstream.sql.types` says.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from millstream.sql.functions.annotations import Mapped, map_annotation
from millstream.sql.functions.builtins import builtin_catalogue
from millstream.sql.functions.catalogue import (
    Accumulator,
    AggregateFunction,
    AggregateOverload,
    Catalogue,
    Function,
    Overload,
    ScalarFunction,
    TableFunction,
)
from millstream.sql.functions.patterns import Exactly
from millstream.sql.functions.signatures import Parameter, Signature
from millstream.sql.types import ArrayType

_REGISTERED: dict[str, Function] = {}


def user_catalogue() -> Catalogue:
    """Returns the built-in functions and the user's ones. A user function replaces a built-in one of its name."""
    catalogue = builtin_catalogue().extended(())
    for function in _REGISTERED.values():
        catalogue.add(function, replace=True)
    return catalogue


def _register(function: Function) -> None:
    _REGISTERED[function.name] = function


def unregister(name: str) -> None:
    """Takes a user function out of the catalogue of later statements."""
    _REGISTERED.pop(name.upper(), None)


def _documentation(item: Any) -> str:
    return (inspect.getdoc(item) or "A user function.").partition("\n\n")[0].replace("\n", " ")


class _Annotated:
    """The parameters and the result of a function, by its annotations."""

    def __init__(self, function: Callable[..., Any], skip: int = 0) -> None:
        self.name = getattr(function, "__qualname__", repr(function))
        hints = typing.get_type_hints(function, include_extras=True)
        listed = list(inspect.signature(function).parameters.values())[skip:]
        self.parameters: list[tuple[Mapped, bool]] = []
        for parameter in listed:
            what = f"{self.name}: parameter {parameter.name}"
            if parameter.kind in {parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD}:
                raise TypeError(f"{what} is passed by name, but SQL passes arguments by position")
            if parameter.name not in hints:
                raise TypeError(f"{what} has no annotation; SQL needs its type")
            mapped = map_annotation(hints[parameter.name], what)
            self.parameters.append((mapped, parameter.kind is parameter.VAR_POSITIONAL))
        if hints.get("return") is None:
            raise TypeError(f"{self.name} has no annotation of its result; SQL needs its type")
        self.result = map_annotation(hints["return"], f"{self.name}: the result")

    def signature(self, result: Any) -> Signature:
        """Returns the signature with a type as its result."""
        parameters = [Parameter(Exactly(mapped.type), variadic) for mapped, variadic in self.parameters]
        return Signature(tuple(parameters), Exactly(result))

    def mapped_at(self, index: int, count: int) -> Mapped:
        """Returns the parameter of an argument; a variadic one takes several."""
        variadic = next((i for i, (_mapped, several) in enumerate(self.parameters) if several), None)
        if variadic is None or index < variadic:
            return self.parameters[index][0]
        from_end = count - index
        after = len(self.parameters) - variadic - 1
        return self.parameters[-from_end][0] if from_end <= after else self.parameters[variadic][0]

    @property
    def sees_nulls(self) -> bool:
        """Whether a parameter takes None."""
        return any(mapped.optional for mapped, _variadic in self.parameters)

    def converted(self, values: tuple[Any, ...]) -> list[Any] | None:
        """Makes Python values of SQL values; None if there is a NULL for a parameter that does not take it."""
        result = []
        for index, value in enumerate(values):
            mapped = self.mapped_at(index, len(values))
            if value is None and not mapped.optional:
                return None
            result.append(value if value is None or mapped.to_python is None else mapped.to_python(value))
        return result

    def call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function of SQL values."""
        to_sql = self.result.to_sql

        def call(*values: Any) -> Any:
            arguments = self.converted(values)
            result = None if arguments is None else function(*arguments)
            return result if result is None or to_sql is None else to_sql(result)

        return call


def _overload(function: Callable[..., Any], signature: str | None, *, rows: bool) -> Overload:
    if signature is not None:
        parsed = Signature.parse(signature)
        if parsed.result is None:
            raise TypeError(f"the signature {signature!r} has no result")
        return Overload(parsed, lambda _bound: function)
    annotated = _Annotated(function)
    result = annotated.result.type
    if rows:
        if not isinstance(result, ArrayType):
            raise TypeError(f"{annotated.name}: a table function returns a list of rows")
        result = result.element
    call = annotated.call(function)
    return Overload(annotated.signature(result), lambda _bound: call, annotated.sees_nulls)


def udf(function: Callable[..., Any] | None = None, *, name: str | None = None, signature: str | None = None) -> Any:
    """Makes a Python function a scalar function of SQL. The function itself stays as it is.

    >>> @udf
    ... def initials(name: str) -> str:
    ...     return "".join(word[0] for word in name.split())
    >>> from millstream.sql.functions import TypedArgument
    >>> from millstream.sql.types import STRING
    >>> user_catalogue().resolve_scalar("INITIALS", [TypedArgument(STRING)]).call("Ann Bee")
    'AB'
    """
    if function is None:
        return lambda decorated: udf(decorated, name=name, signature=signature)
    sql_name = (name or function.__name__).upper()
    overload = _overload(function, signature, rows=False)
    entry = ScalarFunction(sql_name, "user", _documentation(function), sql_name.lower(), None, (overload,), False)
    _register(entry)
    return function


def udtf(function: Callable[..., Any] | None = None, *, name: str | None = None, signature: str | None = None) -> Any:
    """Makes a Python function that returns a list a table function of SQL: each element becomes a row.

    >>> @udtf
    ... def letters(text: str) -> list[str]:
    ...     return list(text)
    """
    if function is None:
        return lambda decorated: udtf(decorated, name=name, signature=signature)
    sql_name = (name or function.__name__).upper()
    overload = _overload(function, signature, rows=True)
    _register(TableFunction(sql_name, "user", _documentation(function), sql_name.lower(), None, (overload,)))
    return function


class _UserAccumulator(Accumulator):
    """The methods of the user's class on SQL values."""

    deterministic = False

    def __init__(self, item: Any, state: Mapped, add: _Annotated, result: Mapped) -> None:
        self._item = item
        self._add = add
        self._to_python = state.to_python
        self._to_sql = state.to_sql
        self._result = result.to_sql
        self.state = state.type
        self.can_undo = hasattr(item, "undo")

    def _python(self, state: Any) -> Any:
        return state if state is None or self._to_python is None else self._to_python(state)

    def _sql(self, state: Any) -> Any:
        return state if state is None or self._to_sql is None else self._to_sql(state)

    def initial(self) -> Any:
        return self._sql(self._item.initial())

    def add(self, state: Any, *values: Any) -> Any:
        arguments = self._add.converted(values)
        return state if arguments is None else self._sql(self._item.add(self._python(state), *arguments))

    def undo(self, state: Any, *values: Any) -> Any:
        arguments = self._add.converted(values)
        return state if arguments is None else self._sql(self._item.undo(self._python(state), *arguments))

    def merge(self, left: Any, right: Any) -> Any:
        return self._sql(self._item.merge(self._python(left), self._python(right)))

    def finish(self, state: Any) -> Any:
        python = self._python(state)
        result = self._item.finish(python) if hasattr(self._item, "finish") else python
        return result if result is None or self._result is None else self._result(result)


def udaf(class_: type | None = None, *, name: str | None = None) -> Any:
    """Makes a class an aggregate function of SQL.

    The class has ``initial()``, ``add(state, value, …)`` and ``merge(left, right)``; with ``undo(state, value, …)`` it
    aggregates tables too; ``finish(state)`` makes the result of the state. A row with a NULL is skipped unless the
    parameter takes None.

    >>> @udaf
    ... class Longest:
    ...     def initial(self) -> int:
    ...         return 0
    ...
    ...     def add(self, state: int, text: str) -> int:
    ...         return max(state, len(text))
    ...
    ...     def merge(self, left: int, right: int) -> int:
    ...         return max(left, right)
    """
    if class_ is None:
        return lambda decorated: udaf(decorated, name=name)
    sql_name = (name or class_.__name__).upper()
    item = class_()
    missing = [method for method in ("initial", "add", "merge") if not callable(getattr(item, method, None))]
    if missing:
        raise TypeError(f"{class_.__qualname__} has no method {missing[0]}: an aggregate function needs it")
    state = _Annotated(item.initial).result
    add = _Annotated(item.add, skip=1)
    result = _Annotated(item.finish, skip=1).result if hasattr(item, "finish") else state
    overload = AggregateOverload(
        add.signature(result.type), 0, lambda _bound, _config: _UserAccumulator(class_(), state, add, result)
    )
    _register(AggregateFunction(sql_name, "user", _documentation(class_), sql_name.lower(), None, (overload,)))
    return class_
