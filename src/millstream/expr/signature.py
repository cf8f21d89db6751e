"""The definition of a function: its parameters, its type rule, its null rule and its implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from millstream.core.frozen import Frozen
from millstream.errors import ExpressionError
from millstream.expr.types import (
    ANY,
    BIGINT,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    INTEGERS,
    NULL,
    TIMESTAMP,
    WIDENING,
    ArrayType,
    DataType,
    MapType,
    MismatchError,
    common_type,
)

Rule = Callable[[Sequence[DataType]], DataType]

_NUMBERS = frozenset(WIDENING)
KINDS: dict[str, frozenset[str]] = {
    "boolean": frozenset({"BOOLEAN"}),
    "integer": INTEGERS,
    "number": _NUMBERS,
    "string": frozenset({"STRING"}),
    "bytes": frozenset({"BYTES"}),
    "text": frozenset({"STRING", "BYTES"}),
    "timestamp": frozenset({"TIMESTAMP", *INTEGERS}),
    "moment": frozenset({"TIMESTAMP", "DATE", *INTEGERS}),
    "array": frozenset({"ARRAY"}),
    "map": frozenset({"MAP"}),
    "sized": frozenset({"STRING", "BYTES", "ARRAY", "MAP"}),
}
"""The types that a parameter of each kind accepts, by name; the kind ``any`` accepts all."""


class Parameter(NamedTuple):
    """A parameter; ``mark`` is '?' for an optional parameter, '+' or '*' for a repeated one."""

    name: str
    kind: str
    mark: str

    def takes(self, type_: DataType) -> bool:
        """Whether the parameter accepts values of a type."""
        return self.kind == "any" or type_ in (ANY, NULL) or type_.name in KINDS[self.kind]


class Function(Frozen):
    """A row of the catalog.

    Attributes:
        name: The name in lower case, or the symbol of an operator.
        signature: The signature as text: ``substring(text: text, start: integer, length: integer?)``.
        result: The type of the result, or the rule that computes it from the types of the arguments.
        implementation: The Python function; a strict one is never called with None.
        strict: Whether the result is null if an argument is null.
        constants: Checks of literal arguments, by position: they raise when a tree with an invalid literal is built.
        doc: Describes the result in a sentence.
        example: ``call -> result``, as Python text, or empty.
    """

    name: str
    signature: str
    parameters: tuple[Parameter, ...]
    result: DataType | Rule
    implementation: Callable[..., Any]
    strict: bool
    constants: Mapping[int, Callable[[Any], Any]]
    doc: str
    example: str

    def check_arguments(self, count: int) -> None:
        """Raises ExpressionError unless the function accepts this number of arguments."""
        least = sum(p.mark in {"", "+"} for p in self.parameters)
        unlimited = any(p.mark in {"*", "+"} for p in self.parameters)
        if count < least or (count > len(self.parameters) and not unlimited):
            raise ExpressionError(f"{self.name} takes other arguments than the {count} given: {self.signature}")

    def parameter(self, position: int) -> Parameter:
        """Returns the parameter of the argument at a position."""
        return self.parameters[min(position, len(self.parameters) - 1)]

    def type_for(self, types: Sequence[DataType]) -> DataType:
        """Returns the type of the result, or raises MismatchError."""
        for position, type_ in enumerate(types):
            parameter = self.parameter(position)
            if not parameter.takes(type_):
                raise MismatchError(f"{self.signature} does not take {type_} as {parameter.name}")
        return self.result if isinstance(self.result, DataType) else self.result(types)


def parse_signature(signature: str) -> tuple[str, tuple[Parameter, ...]]:
    """Parses ``name(parameter: kind, ...)``, where a kind may end in ``?``, ``+`` or ``*``.

    >>> parse_signature("concat(parts: text+)")
    ('concat', (Parameter(name='parts', kind='text', mark='+'),))
    """
    name, _, tail = signature.partition("(")
    parameters = []
    for part in tail[:-1].split(", ") if tail != ")" else []:
        parameter, _, kind = part.partition(": ")
        mark = kind[-1] if kind[-1] in "?+*" else ""
        parameters.append(Parameter(parameter, kind.removesuffix(mark), mark))
    return name, tuple(parameters)


def first(types: Sequence[DataType]) -> DataType:
    """Returns the type of the first argument."""
    return types[0]


def first_of_common(types: Sequence[DataType]) -> DataType:
    """Returns the type of the first argument, if the others can be compared with it."""
    common_type(types)
    return types[0]


def comparison(types: Sequence[DataType]) -> DataType:
    """Returns BOOLEAN, if the arguments can be compared."""
    common_type(types)
    return BOOLEAN


def ordering(types: Sequence[DataType]) -> DataType:
    """Returns BOOLEAN, if the arguments have an order."""
    if common_type(types).name in {"MAP", "STRUCT", "ARRAY"}:
        raise MismatchError(f"{types[0]} has no order")
    return BOOLEAN


def membership(types: Sequence[DataType]) -> DataType:
    """Returns BOOLEAN, if the array can contain the element."""
    if isinstance(types[0], ArrayType):
        common_type([types[0].element, types[1]])
    return BOOLEAN


def element(types: Sequence[DataType]) -> DataType:
    """Returns the type of the elements of an array, or of the values of a map."""
    container, index = types
    if isinstance(container, ArrayType):
        if index.name not in {*INTEGERS, "ANY", "NULL"}:
            raise MismatchError(f"{container} has no element at a {index}")
        return container.element
    if isinstance(container, MapType):
        common_type([container.key, index])
        return container.value
    if container not in (ANY, NULL):
        raise MismatchError(f"{container} has no elements")
    return ANY


def array_of(types: Sequence[DataType]) -> DataType:
    """Returns the type of an array of the arguments."""
    return ArrayType(common_type(types) if types else ANY)


def map_keys(types: Sequence[DataType]) -> DataType:
    """Returns the type of an array of a map's keys."""
    return ArrayType(types[0].key if isinstance(types[0], MapType) else ANY)


def map_values(types: Sequence[DataType]) -> DataType:
    """Returns the type of an array of a map's values."""
    return ArrayType(types[0].value if isinstance(types[0], MapType) else ANY)


def arithmetic(operator: str) -> Rule:
    """Returns the rule of an operator: the wider type of two numbers; ``+`` and ``-`` also take other types."""

    def rule(types: Sequence[DataType]) -> DataType:
        heads = [t.name for t in types]
        if operator in {"+", "-"} and "TIMESTAMP" in heads:
            return _with_timestamp(operator, heads, types)
        if operator == "+" and {"STRING", "BYTES"} & {*heads}:
            return common_type(types)
        refused = next((t for t in types if t.name not in {*_NUMBERS, "ANY", "NULL"}), None)
        if refused is not None:
            raise MismatchError(f"{operator} does not take {refused}")
        if "ANY" in heads:
            return ANY
        wider = common_type(types)
        if operator == "/":
            return DECIMAL if wider.name == "DECIMAL" else DOUBLE
        return DECIMAL if wider.name == "DECIMAL" else wider

    return rule


def _with_timestamp(operator: str, heads: list[str], types: Sequence[DataType]) -> DataType:
    """Returns TIMESTAMP for a timestamp plus or minus milliseconds, BIGINT for the difference of two timestamps."""
    if heads == ["TIMESTAMP", "TIMESTAMP"] and operator == "-":
        return BIGINT
    durations = {*INTEGERS, "ANY", "NULL"}
    if heads[0] == "TIMESTAMP" and heads[1] in durations:
        # An operand of an unknown type may be a timestamp too.
        return ANY if heads[1] == "ANY" and operator == "-" else TIMESTAMP
    if heads[1] == "TIMESTAMP" and heads[0] in durations and operator == "+":
        return TIMESTAMP
    if heads == ["ANY", "TIMESTAMP"]:
        return BIGINT
    raise MismatchError(f"{types[0]} {operator} {types[1]} has no meaning")
