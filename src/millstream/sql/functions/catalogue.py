"""The catalogue: one entry for each function, with its overloads, its documentation and an example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from millstream.core.frozen import Frozen
from millstream.errors import SqlStatementError, suggestion
from millstream.sql.functions.arguments import MISSING, Argument, TypedArgument
from millstream.sql.functions.coercion import Converter
from millstream.sql.functions.signatures import Bound, Implementation, Parameter, Signature, choose
from millstream.sql.types import SqlType

Config = Mapping[str, Any]
"""Properties of the session, such as ``ksql.functions.collect_list.limit``."""


# ----- what a call becomes -------------------------------------------------------------------------------------------


class ScalarCall(Frozen):
    """A call of a scalar function.

    Attributes:
        name: The name of the function.
        result: The type of the result.
        converters: For each argument, what brings a value that is not None to the type of the parameter, or None.
        call: The function of the converted values. A lambda is passed as a callable, a unit of time as its text.
        strict: Whether the result is None, without a call, if an argument is None.
        deterministic: Whether equal arguments give equal results.
    """

    name: str
    result: SqlType
    converters: tuple[Converter | None, ...]
    call: Implementation
    strict: bool
    deterministic: bool


class TableCall(Frozen):
    """A call of a table function; ``call`` returns the list of rows. Arguments are those of `ScalarCall`."""

    name: str
    result: SqlType
    converters: tuple[Converter | None, ...]
    call: Callable[..., list[Any]]
    strict: bool


class Accumulator:
    """An aggregation: how a state starts, grows, shrinks and becomes a result.

    States are values of the SQL type `state`, in the representation of `millstream.sql.types`, so a codec of that type
    can store them. Methods return the new state; they may change the one that they get. Those of a `deterministic`
    accumulator have no other effects: a call may be repeated.
    """

    state: SqlType
    can_undo: bool = False
    deterministic: bool = True

    def initial(self) -> Any:
        """Returns the state of no rows."""
        raise NotImplementedError

    def add(self, state: Any, *values: Any) -> Any:
        """Adds a row."""
        raise NotImplementedError

    def merge(self, left: Any, right: Any) -> Any:
        """Merges the states of two sessions; `left` is the earlier one."""
        raise NotImplementedError

    def undo(self, state: Any, *values: Any) -> Any:
        """Takes a row out again, if `can_undo`."""
        raise NotImplementedError

    def finish(self, state: Any) -> Any:
        """Returns the result of a state."""
        return state


class AggregateCall(Frozen):
    """A call of an aggregate function.

    Attributes:
        name: The name of the function.
        result: The type of the result.
        converters: As of `ScalarCall`, for the arguments that are evaluated for each row.
        types: The types of the arguments that are evaluated for each row; the converters take others, too.
        accumulator: The aggregation; its methods take converted values, None included.
    """

    name: str
    result: SqlType
    converters: tuple[Converter | None, ...]
    types: tuple[SqlType, ...]
    accumulator: Accumulator

    @property
    def columns(self) -> int:
        """How many leading arguments are evaluated for each row. The others are literals, and used up."""
        return len(self.types)

    @property
    def state(self) -> SqlType:
        """The type of the state."""
        return self.accumulator.state

    @property
    def undo(self) -> Callable[..., Any] | None:
        """The function that takes a row out again; None if the function cannot aggregate tables."""
        return self.accumulator.undo if self.accumulator.can_undo else None


# ----- entries -------------------------------------------------------------------------------------------------------


class Example(Frozen):
    """An expression and the text of its value (that of CAST to STRING; ``null`` for NULL)."""

    expression: str
    shown: str


class Overload(Frozen):
    """One signature of a scalar or table function with what it does.

    Attributes:
        bind: Returns the implementation for the types and literals of a call.
        sees_nulls: Whether the implementation gets NULLs, instead of NULL being the result.
        result: Computes the type of the result, where the signature does not give it.
    """

    signature: Signature
    bind: Callable[[Bound], Implementation]
    sees_nulls: bool = False
    result: Callable[[Bound], SqlType] | None = None


class AggregateOverload(Frozen):
    """One signature of an aggregate function; the last ``literals`` parameters must be literals."""

    signature: Signature
    literals: int
    bind: Callable[[Bound, Config], Accumulator]
    result: Callable[[Bound], SqlType] | None = None


class Function(Frozen):
    """The fields of all entries. ``spelling`` is the name in messages."""

    name: str
    category: str
    documentation: str
    spelling: str = ""
    example: Example | None = None

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The signatures, for documentation and messages."""
        raise NotImplementedError


class ScalarFunction(Function):
    """A scalar function."""

    overloads: tuple[Overload, ...] = ()
    deterministic: bool = True

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The signatures of the overloads."""
        return tuple(overload.signature for overload in self.overloads)

    def resolve(self, arguments: Sequence[Argument]) -> ScalarCall:
        """Chooses an overload for the arguments of a call."""
        result, converters, call, strict = _resolve(self, self.overloads, arguments)
        return ScalarCall(self.name, result, converters, call, strict, self.deterministic)


class TableFunction(Function):
    """A table function."""

    overloads: tuple[Overload, ...] = ()

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The signatures of the overloads."""
        return tuple(overload.signature for overload in self.overloads)

    def resolve(self, arguments: Sequence[Argument]) -> TableCall:
        """Chooses an overload for the arguments of a call; ``result`` is the type of the column."""
        result, converters, call, strict = _resolve(self, self.overloads, arguments)
        return TableCall(self.name, result, converters, call, strict)


class AggregateFunction(Function):
    """An aggregate function."""

    overloads: tuple[AggregateOverload, ...] = ()

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The signatures of the overloads."""
        return tuple(overload.signature for overload in self.overloads)

    def resolve(self, arguments: Sequence[Argument], config: Config | None = None) -> AggregateCall:
        """Chooses an overload for the arguments of a call."""
        index, bound = choose(self.name, self.signatures, arguments)
        overload = self.overloads[index]
        last = overload.signature.parameters[len(overload.signature.parameters) - overload.literals :]
        columns = sum(all(parameter is not one for one in last) for parameter in bound.parameters)
        types = tuple(bound.type(position) for position in range(columns))
        for position, argument in enumerate(arguments[columns:], start=columns + 1):
            if not isinstance(argument, TypedArgument) or argument.literal is MISSING:
                raise SqlStatementError(
                    f"Parameter {position} passed to function {self.name} must be a literal constant"
                )
            if argument.literal is None:
                raise SqlStatementError(f"Parameter {position} passed to function {self.name} must not be NULL")
        converted = tuple(
            value if converter is None or value is MISSING or value is None else converter(value)
            for value, converter in zip(bound.literals, bound.converters, strict=True)
        )
        bound = Bound(bound.parameters, bound.types, bound.binding, converted, bound.converters, bound.result)
        accumulator = overload.bind(bound, config or {})
        result = _result(self.name, bound, overload.result)
        return AggregateCall(self.name, result, bound.converters[:columns], types, accumulator)


def _resolve(
    function: Function, overloads: Sequence[Overload], arguments: Sequence[Argument]
) -> tuple[SqlType, tuple[Converter | None, ...], Implementation, bool]:
    index, bound = choose(function.spelling, function.signatures, arguments)
    overload = overloads[index]
    result = _result(function.spelling, bound, overload.result)
    call = overload.bind(bound)
    if any(parameter.required for parameter in bound.parameters):
        return result, bound.converters, _guarded(function.name, bound.parameters, overload, call), False
    return result, bound.converters, call, not overload.sees_nulls


def _result(name: str, bound: Bound, rule: Callable[[Bound], SqlType] | None) -> SqlType:
    type_ = bound.result if rule is None else rule(bound)
    if type_ is None:
        raise SqlStatementError(
            f"The type of the result of function '{name}' is not known",
            hint="write CAST(NULL AS type) instead of NULL for one of its arguments",
        )
    return type_


def _guarded(
    name: str, parameters: Sequence[Parameter], overload: Overload, call: Implementation
) -> Callable[..., Any]:
    required = [index for index, parameter in enumerate(parameters) if parameter.required]

    def guarded(*values: Any) -> Any:
        for index in required:
            if values[index] is None:
                raise ValueError(f"{name}: argument {index + 1} is NULL")
        if not overload.sees_nulls and None in values:
            return None
        return call(*values)

    return guarded


# ----- how the modules with functions write their entries ------------------------------------------------------------


def on(
    signature: str,
    implementation: Implementation | None = None,
    *,
    nulls: bool = False,
    result: Callable[[Bound], SqlType] | None = None,
    bind: Callable[[Bound], Implementation] | None = None,
) -> Overload:
    """Makes an overload of an implementation, or of a function that returns one for the types of a call."""
    if bind is None:
        assert implementation is not None
        function = implementation
        return Overload(Signature.parse(signature), lambda _bound: function, nulls, result)
    return Overload(Signature.parse(signature), bind, nulls, result)


def scalar(
    name: str,
    category: str,
    documentation: str,
    example: tuple[str, str] | None,
    *overloads: Overload,
    deterministic: bool = True,
) -> ScalarFunction:
    """Makes the entry of a scalar function."""
    shown = None if example is None else Example(*example)
    return ScalarFunction(name, category, documentation, name.lower(), shown, overloads, deterministic)


def aggregate(
    signature: str,
    bind: Callable[[Bound, Config], Accumulator],
    *,
    literals: int = 0,
    result: Callable[[Bound], SqlType] | None = None,
) -> AggregateOverload:
    """Makes an overload of an aggregate function."""
    return AggregateOverload(Signature.parse(signature), literals, bind, result)


F = TypeVar("F", bound=Function)


class Catalogue:
    """The functions that statements can call, by name in any case."""

    def __init__(self, functions: Iterable[Function] = ()) -> None:
        self._functions: dict[str, Function] = {}
        for function in functions:
            self.add(function)

    def add(self, function: Function, *, replace: bool = False) -> None:
        """Adds a function.

        Raises:
            SqlStatementError: There is a function with this name, and `replace` is not set.
        """
        name = function.name.upper()
        if name in self._functions and not replace:
            raise SqlStatementError(f"There is already a function with the name '{name}'")
        self._functions[name] = function

    def extended(self, functions: Iterable[Function]) -> Catalogue:
        """Returns a catalogue with more functions; this one stays as it is."""
        catalogue = Catalogue(self._functions.values())
        for function in functions:
            catalogue.add(function)
        return catalogue

    def __iter__(self) -> Iterator[Function]:
        return iter(sorted(self._functions.values(), key=lambda function: function.name))

    def __contains__(self, name: str) -> bool:
        return name.upper() in self._functions

    def find(self, name: str) -> Function:
        """Returns a function.

        Raises:
            SqlStatementError: There is none with this name.
        """
        function = self._functions.get(name.upper())
        if function is None:
            raise SqlStatementError(
                f"Can't find any functions with the name '{name}'", hint=suggestion(name.upper(), self._functions)
            )
        return function

    def is_aggregate(self, name: str) -> bool:
        """Whether a name is that of an aggregate function."""
        return isinstance(self._functions.get(name.upper()), AggregateFunction)

    def is_table_function(self, name: str) -> bool:
        """Whether a name is that of a table function."""
        return isinstance(self._functions.get(name.upper()), TableFunction)

    def resolve_scalar(self, name: str, arguments: Sequence[Argument]) -> ScalarCall:
        """Resolves a call of a scalar function."""
        return self._of_kind(name, ScalarFunction).resolve(arguments)

    def resolve_table(self, name: str, arguments: Sequence[Argument]) -> TableCall:
        """Resolves a call of a table function."""
        return self._of_kind(name, TableFunction).resolve(arguments)

    def resolve_aggregate(
        self, name: str, arguments: Sequence[Argument], config: Config | None = None
    ) -> AggregateCall:
        """Resolves a call of an aggregate function; `config` has the properties that limit it."""
        return self._of_kind(name, AggregateFunction).resolve(arguments, config)

    def _of_kind(self, name: str, kind: type[F]) -> F:
        function = self.find(name)
        if not isinstance(function, kind):
            kinds = {ScalarFunction: "a scalar", AggregateFunction: "an aggregate", TableFunction: "a table"}
            raise SqlStatementError(f"{function.name} is {kinds[type(function)]} function: it cannot be called here")
        return function
