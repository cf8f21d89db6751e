"""Overloads of functions, and the choice of one for the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millstream.core.frozen import Frozen
from millstream.errors import SqlStatementError
from millstream.sql.functions.arguments import Argument, LambdaArgument, TypedArgument
from millstream.sql.functions.coercion import Converter, widening
from millstream.sql.functions.patterns import (
    AnyDecimal,
    AnyType,
    Binding,
    LambdaPattern,
    Pattern,
    Tokens,
    accepts,
    accepts_lambda,
    read_pattern,
)
from millstream.sql.types import DecimalType, SqlType


class Parameter(Frozen):
    """A parameter. A NULL for a ``required`` one raises, instead of making the result NULL."""

    pattern: Pattern
    variadic: bool = False
    required: bool = False

    def __str__(self) -> str:
        return f"{self.pattern}{'...' if self.variadic else ''}"


class Signature(Frozen):
    """Parameters and result; the result is None if a rule of the function computes its type.

    >>> print(Signature.parse("(ARRAY<T>, INT!, T...) -> T"))
    (ARRAY<T>, INTEGER, T...) -> T
    """

    parameters: tuple[Parameter, ...]
    result: Pattern | None

    @staticmethod
    def parse(text: str) -> Signature:
        """Reads a signature: ``(type, type!, type...) -> type``; ``!`` marks a required parameter."""
        tokens = Tokens(text)
        tokens.expect("(")
        parameters = []
        while not tokens.accept(")"):
            pattern = read_pattern(tokens)
            required = tokens.accept("!")
            parameters.append(Parameter(pattern, tokens.accept("..."), required))
            tokens.accept(",")
        result = read_pattern(tokens) if tokens.accept("->") else None
        return Signature(tuple(parameters), result)

    @property
    def variadic(self) -> int | None:
        """The position of the variadic parameter."""
        return next((index for index, parameter in enumerate(self.parameters) if parameter.variadic), None)

    def spread(self, count: int) -> tuple[Parameter, ...] | None:
        """Returns one parameter for each of `count` arguments, None if there cannot be so many."""
        position = self.variadic
        if position is None:
            return self.parameters if count == len(self.parameters) else None
        copies = count - len(self.parameters) + 1
        if copies < 0:
            return None
        variadic = (self.parameters[position],) * copies
        return (*self.parameters[:position], *variadic, *self.parameters[position + 1 :])

    def preference(self) -> tuple[bool, int, int, bool, int]:
        """Greater is better: not variadic, more parameters, fewer generic ones, not ANY..., variadic further right."""
        position = self.variadic
        generic = sum(bool(parameter.pattern.variables) for parameter in self.parameters)
        any_variadic = position is not None and isinstance(self.parameters[position].pattern, AnyType)
        last = len(self.parameters) if position is None else position
        return position is None, len(self.parameters), -generic, not any_variadic, last

    def __str__(self) -> str:
        result = "" if self.result is None else f" -> {self.result}"
        return f"({', '.join(map(str, self.parameters))}){result}"


class Bound(Frozen):
    """A signature with the arguments of a call.

    Attributes:
        parameters: One for each argument.
        types: The type that each argument has after its conversion; None for NULL, lambdas and units.
        binding: The types of the variables.
        literals: The value of each argument that is a literal, else MISSING.
        converters: What brings each argument to the type of its parameter; None where nothing changes.
        result: The type of the result, None if a rule of the function gives it.
    """

    parameters: tuple[Parameter, ...]
    types: tuple[SqlType | None, ...]
    binding: Binding
    literals: tuple[Any, ...]
    converters: tuple[Converter | None, ...]
    result: SqlType | None

    def type(self, index: int) -> SqlType:
        """Returns the type of an argument that must have one."""
        type_ = self.types[index]
        if type_ is None:
            raise SqlStatementError(
                f"The type of argument {index + 1} is not known", hint="write CAST(NULL AS type) instead of NULL"
            )
        return type_


def choose(name: str, signatures: Sequence[Signature], arguments: Sequence[Argument]) -> tuple[int, Bound]:
    """Chooses the signature that fits best, and returns its index and how the arguments fill it.

    Signatures that take the types as they are go before those that need an implicit conversion.
    """
    for widen in (False, True):
        candidates = []
        for index, signature in enumerate(signatures):
            bound = _bind(signature, arguments, widen=widen)
            if bound is not None:
                candidates.append((signature.preference(), index, bound))
        if candidates:
            best = max(preference for preference, _index, _bound in candidates)
            chosen = [(index, bound) for preference, index, bound in candidates if preference == best]
            if len(chosen) > 1:
                raise SqlStatementError(
                    f"Function '{name}' cannot be resolved due to ambiguous method parameters "
                    f"({', '.join(map(str, arguments))}).\n{alternatives(name, signatures)}",
                    hint="use CAST() to give the arguments the types of one of the signatures",
                )
            index, bound = chosen[0]
            return index, _infer_lambdas(name, signatures, index, bound, arguments)
    raise no_match(name, signatures, arguments)


def no_match(name: str, signatures: Sequence[Signature], arguments: Sequence[Argument]) -> SqlStatementError:
    """Returns the error for arguments that no signature takes."""
    return SqlStatementError(
        f"Function '{name}' does not accept parameters ({', '.join(map(str, arguments))}).\n"
        f"{alternatives(name, signatures)}",
        hint=f"DESCRIBE FUNCTION {name.upper()}; shows what it takes",
    )


def alternatives(name: str, signatures: Sequence[Signature]) -> str:
    """Lists the signatures of a function."""
    lines = [f"{name}({', '.join(map(str, signature.parameters))})" for signature in signatures]
    return "Valid alternatives are:\n" + "\n".join(lines)


def _bind(signature: Signature, arguments: Sequence[Argument], *, widen: bool) -> Bound | None:
    parameters = signature.spread(len(arguments))
    binding: Binding = {}
    if parameters is None:
        return None
    pairs = list(zip(parameters, arguments, strict=True))
    if not all(accepts(parameter.pattern, argument, binding, widen=widen) for parameter, argument in pairs):
        return None
    return _fill(signature, parameters, arguments, binding)


def _fill(
    signature: Signature, parameters: tuple[Parameter, ...], arguments: Sequence[Argument], binding: Binding
) -> Bound:
    types: list[SqlType | None] = []
    converters: list[Converter | None] = []
    for parameter, argument in zip(parameters, arguments, strict=True):
        given = argument.type if isinstance(argument, TypedArgument) else None
        pattern = parameter.pattern
        typed = isinstance(argument, TypedArgument)
        wanted = pattern.resolve(binding, given) if typed else None
        types.append(wanted)
        converters.append(None if given is None or wanted is None else widening(given, wanted))
    literals = tuple(argument.literal if isinstance(argument, TypedArgument) else argument for argument in arguments)
    # DECIMAL as a result means the type of the first DECIMAL argument.
    decimal = next((type_ for type_ in types if isinstance(type_, DecimalType)), None)
    given = decimal if isinstance(signature.result, AnyDecimal) else None
    result = None if signature.result is None else signature.result.resolve(binding, given)
    return Bound(parameters, tuple(types), binding, literals, tuple(converters), result)


def _infer_lambdas(
    name: str, signatures: Sequence[Signature], index: int, bound: Bound, arguments: Sequence[Argument]
) -> Bound:
    lambdas = [
        (parameter.pattern, argument)
        for parameter, argument in zip(bound.parameters, arguments, strict=True)
        if isinstance(parameter.pattern, LambdaPattern) and isinstance(argument, LambdaArgument)
    ]
    if not lambdas:
        return bound
    for pattern, argument in lambdas:
        if not accepts_lambda(pattern, argument, bound.binding):
            raise no_match(name, signatures, arguments)
    return _fill(signatures[index], bound.parameters, arguments, bound.binding)


Implementation = Callable[..., Any]
