"""Types of parameters: SQL types with variables, any DECIMAL, lambdas and units of time.

They are written as text in the catalogue: ``ARRAY<T>``, ``MAP<K, V>``, ``DECIMAL`` (any precision and scale), ``ANY``,
``LAMBDA(T) => R``, ``UNIT``. A single capital letter, with or without a digit, is a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from millstream.core.frozen import Value
from millstream.sql.functions.arguments import Argument, LambdaArgument, TypedArgument, UnitArgument
from millstream.sql.functions.coercion import as_decimal, widens
from millstream.sql.types import PRIMITIVES, ArrayType, DecimalType, MapType, SqlType, StructType

Binding = dict[str, SqlType]
"""The types of the variables."""


class Pattern(Value):
    """A type of a parameter or result."""

    def accepts(self, type_: SqlType, binding: Binding, *, widen: bool) -> bool:
        """Whether a value of a type can be passed. Binds variables."""
        raise NotImplementedError

    def resolve(self, binding: Binding, given: SqlType | None = None) -> SqlType | None:
        """Returns the type that the value has after its conversion, None if a variable is not bound."""
        raise NotImplementedError

    @property
    def variables(self) -> frozenset[str]:
        """The names of the variables in this pattern."""
        return frozenset()


class Exactly(Pattern):
    """One SQL type."""

    type: SqlType

    def accepts(self, type_: SqlType, binding: Binding, *, widen: bool) -> bool:
        """Whether the type is this one, or can become it."""
        return type_ == self.type or (widen and widens(type_, self.type))

    def resolve(self, binding: Binding, given: SqlType | None = None) -> SqlType | None:
        """Returns the type."""
        return self.type

    def __str__(self) -> str:
        return str(self.type)


class AnyDecimal(Pattern):
    """A DECIMAL of any precision and scale."""

    def accepts(self, type_: SqlType, binding: Binding, *, widen: bool) -> bool:
        """Whether the type is a DECIMAL, or an integer that can become one."""
        return isinstance(type_, DecimalType) or (widen and as_decimal(type_) is not None)

    def resolve(self, binding: Binding, given: SqlType | None = None) -> SqlType | None:
        """Returns the DECIMAL that the argument is or becomes."""
        return None if given is None else as_decimal(given)

    def __str__(self) -> str:
        return "DECIMAL"


class AnyType(Pattern):
    """Any type."""

    def accepts(self, type_: SqlType, binding: Binding, *, widen: bool) -> bool:
        """Accepts."""
        return True

    def resolve(self, binding: Binding, given: SqlType | None = None) -> SqlType | None:
        """Returns the type of the argument."""
        return given

    def __str__(self) -> str:
        return "ANY"


class Variable(Pattern):
    """A type that must be the same everywhere in a call."""

    name: str

    def accepts(self, type_: SqlType, binding: Binding, *, widen: bool) -> bool:
        """Binds the variable, or compares with what it is bound to: variables do not widen."""
        return binding.setdefault(self.name, type_) == type_

    def resolve(self, binding: Binding, given: SqlType | None = None) -> SqlType | None:
        """Returns the type that the variable is bound to."""
        return binding.get(self.name)

    @property
    def variables(self) -> frozenset[str]:
        """The name of the variable."""
        return frozenset((self.name,))

    def __str__(self) -> str:
        return self.name


class Composite(Pattern):
    """ARRAY, MAP or STRUCT of patterns; ``names`` are those of the fields of a STRUCT."""

    kind: str
    parts: tuple[Pattern, ...]
    names: tuple[str, ...] = ()

    def accepts(self, type_: SqlType, binding: Binding, *, widen: bool) -> bool:
        """Whether the type is of this kind, and its parts are accepted."""
        if self._kind_of(type_) != self.kind or len(type_.parts) != len(self.parts):
            return False
        if isinstance(type_, StructType) and tuple(name for name, _type in type_.fields) != self.names:
            return False
        pairs = zip(self.parts, type_.parts, strict=True)
        return all(part.accepts(given, binding, widen=widen) for part, given in pairs)

    @staticmethod
    def _kind_of(type_: SqlType) -> str:
        kinds = {ArrayType: "ARRAY", MapType: "MAP", StructType: "STRUCT"}
        return kinds.get(type(type_), "")

    def resolve(self, binding: Binding, given: SqlType | None = None) -> SqlType | None:
        """Returns the type with the parts resolved."""
        inner = given.parts if given is not None else (None,) * len(self.parts)
        parts = [part.resolve(binding, type_) for part, type_ in zip(self.parts, inner, strict=True)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        if self.kind == "ARRAY":
            return ArrayType(known[0])
        if self.kind == "MAP":
            return MapType(known[0], known[1])
        return StructType(tuple(zip(self.names, known, strict=True)))

    @property
    def variables(self) -> frozenset[str]:
        """The variables of the parts."""
        return frozenset().union(*(part.variables for part in self.parts))

    def __str__(self) -> str:
        texts = [str(part) for part in self.parts]
        if self.kind == "STRUCT":
            texts = [f"`{name}` {text}" for name, text in zip(self.names, texts, strict=True)]
        return f"{self.kind}<{', '.join(texts)}>"


class LambdaPattern(Pattern):
    """A lambda with the types of its parameters and of its result."""

    inputs: tuple[Pattern, ...]
    result: Pattern

    @property
    def variables(self) -> frozenset[str]:
        """The variables of the parameters and of the result."""
        return frozenset().union(self.result.variables, *(part.variables for part in self.inputs))

    def __str__(self) -> str:
        return f"LAMBDA ({', '.join(map(str, self.inputs))}) => {self.result}"


class UnitPattern(Pattern):
    """A unit of time."""

    def __str__(self) -> str:
        return "INTERVALUNIT"


def accepts(pattern: Pattern, argument: Argument, binding: Binding, *, widen: bool) -> bool:
    """Whether an argument can be passed. The literal NULL goes everywhere but to lambdas and units."""
    if isinstance(pattern, LambdaPattern):
        return isinstance(argument, LambdaArgument) and argument.arity == len(pattern.inputs)
    if isinstance(pattern, UnitPattern):
        return isinstance(argument, UnitArgument)
    if not isinstance(argument, TypedArgument):
        return False
    return argument.type is None or pattern.accepts(argument.type, binding, widen=widen)


def accepts_lambda(pattern: LambdaPattern, argument: LambdaArgument, binding: Binding) -> bool:
    """Types the body of a lambda, and binds its result."""
    inputs = [part.resolve(binding) for part in pattern.inputs]
    known = tuple(type_ for type_ in inputs if type_ is not None)
    return len(known) == len(inputs) and pattern.result.accepts(argument.infer(known), binding, widen=False)


# ----- text ----------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(`[^`]*`|\w+|=>|->|\.\.\.|[<>(),!])")
_VARIABLE = re.compile(r"[A-Z]\d?")


class Tokens:
    """The words of a signature."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: Iterator[str] = iter(_TOKEN.findall(text))
        self.word: str = next(self._words, "")

    def take(self) -> str:
        """Returns the next word."""
        word = self.word
        self.word = next(self._words, "")
        return word

    def accept(self, word: str) -> bool:
        """Takes the next word if it is this one."""
        if self.word != word:
            return False
        self.take()
        return True

    def expect(self, word: str) -> None:
        """Takes a word that must come."""
        if not self.accept(word):
            raise ValueError(f"{self._text!r}: {word!r} is missing before {self.word!r}")


def read_pattern(tokens: Tokens) -> Pattern:
    """Reads a pattern from its text."""
    word = tokens.take()
    if word in {"ARRAY", "MAP", "STRUCT"}:
        tokens.expect("<")
        names, parts = [], []
        while not tokens.accept(">"):
            if word == "STRUCT":
                names.append(tokens.take().strip("`"))
            parts.append(read_pattern(tokens))
            tokens.accept(",")
        composite = Composite(word, tuple(parts), tuple(names))
        fixed = composite.resolve({})
        return composite if fixed is None else Exactly(fixed)
    if word == "LAMBDA":
        tokens.expect("(")
        inputs = []
        while not tokens.accept(")"):
            inputs.append(read_pattern(tokens))
            tokens.accept(",")
        tokens.expect("=>")
        return LambdaPattern(tuple(inputs), read_pattern(tokens))
    if word == "DECIMAL":
        if not tokens.accept("("):
            return AnyDecimal()
        precision = int(tokens.take())
        tokens.expect(",")
        scale = int(tokens.take())
        tokens.expect(")")
        return Exactly(DecimalType(precision, scale))
    if word == "ANY":
        return AnyType()
    if word == "UNIT":
        return UnitPattern()
    if word in PRIMITIVES:
        return Exactly(PRIMITIVES[word])
    if _VARIABLE.fullmatch(word):
        return Variable(word)
    raise ValueError(f"{word!r} is not a type of a signature")
