"""The parser of expressions.

One function takes operators by their precedence, so a level of nesting costs few Python calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation

from millstream.errors import SqlSyntaxError
from millstream.sql.syntax.cursor import MAX_COLUMNS, MAX_DEPTH, too_deep
from millstream.sql.syntax.text import depth
from millstream.sql.syntax.tokens import Kind, Token
from millstream.sql.syntax.tree import (
    Arithmetic,
    ArrayConstructor,
    Between,
    Call,
    Case,
    Cast,
    ColumnRef,
    Comparison,
    Concatenation,
    Dereference,
    Expression,
    InList,
    IntervalUnit,
    IsNull,
    Lambda,
    Like,
    Literal,
    Logical,
    MapConstructor,
    Not,
    Star,
    StructConstructor,
    Subscript,
    Unary,
)
from millstream.sql.syntax.type_names import TypeParser
from millstream.sql.syntax.words import RESERVED, unit_of

_OR, _AND, _NOT, _PREDICATE, _VALUE, _SUM, _PRODUCT, _UNARY = range(1, 9)
_BINARY = {
    "OR": _OR,
    "AND": _AND,
    "||": _VALUE,
    "+": _SUM,
    "-": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
    "%": _PRODUCT,
}
_COMPARISONS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_PREDICATES = frozenset({*_COMPARISONS, "BETWEEN", "IN", "LIKE", "IS", "NOT"})
_WITH_UNIT = frozenset({"DATEADD", "DATESUB", "TIMEADD", "TIMESUB", "TIMESTAMPADD", "TIMESTAMPSUB"})


class ExpressionParser(TypeParser):
    """Parses expressions."""

    last_primary: Expression | None = None
    """The expression that was taken last as one unit: what ``->*`` may follow."""

    def whole_expression(self) -> Expression:
        """Takes an expression that is not a part of another one."""
        return self._checked(_OR)

    def whole_value(self) -> Expression:
        """Takes an expression without comparison and logic, except in parentheses, that is not a part of another."""
        return self._checked(_VALUE)

    def _checked(self, lowest: int) -> Expression:
        first = self.index
        expression = self._operators(lowest)
        # A long chain such as 1 + 1 + … makes a deep tree without nesting. Each level of a tree has a token.
        if self.index - first > MAX_DEPTH and depth(expression, MAX_DEPTH) > MAX_DEPTH:
            raise too_deep(expression.at)
        return expression

    def _operators(self, lowest: int) -> Expression:
        """Takes an expression whose operators outside of parentheses bind at least as strongly as ``lowest``."""
        self.enter()
        at = self.next.at
        word = self.next.word
        if word == "NOT" and lowest <= _NOT:
            self.take()
            left: Expression = Not(at=at, operand=self._operators(_NOT))
        elif word in {"-", "+"} and not (word == "-" and self.ahead(1).kind in _NUMBERS):
            self.take()
            left = Unary(at=at, operator=word, operand=self._operators(_UNARY))
        else:
            left = self._primary()
        predicated = False
        while True:
            word = self.next.word
            binding = _BINARY.get(word)
            if binding is not None:
                if binding < lowest or (predicated and binding >= _VALUE):
                    break
                self.take()
                left = _binary(word, left, self._operators(binding + 1))
                predicated = False
            elif word in _PREDICATES and lowest <= _PREDICATE:
                if predicated:
                    raise SqlSyntaxError(
                        f"a comparison cannot follow another one: {self.next}",
                        at=self.next.at,
                        hint="put one of the comparisons in parentheses, or join them with AND",
                    )
                left, predicated = self._predicate(left), True
            elif word == "AT" and self.ahead(1).word == "TIME":
                raise SqlSyntaxError("AT TIME ZONE is not supported", at=self.next.at, hint="use CONVERT_TZ")
            else:
                break
        self.depth -= 1
        return left

    # ----- comparisons -----------------------------------------------------------------------------------------------

    def _predicate(self, left: Expression) -> Expression:
        word = self.take().word
        if word in _COMPARISONS:
            if self.next.word == "=" and word == "=":
                raise SqlSyntaxError("unexpected '='", at=self.next.at, hint="equality is written with a single =")
            right = self._operators(_VALUE)
            return Comparison(at=left.at, operator=_COMPARISONS[word], left=left, right=right)
        if word == "IS":
            return self._is(left)
        negated = word == "NOT"
        if negated:
            word = self.one_of("BETWEEN", "IN", "LIKE")
        if word == "BETWEEN":
            low = self._operators(_VALUE)
            self.expect("AND")
            high = self._operators(_VALUE)
            return Between(at=left.at, operand=left, low=low, high=high, negated=negated)
        if word == "IN":
            return InList(at=left.at, operand=left, items=self._items(), negated=negated)
        pattern = self._operators(_VALUE)
        escape = None
        if self.next.word == "ESCAPE" and self.ahead(1).kind is Kind.STRING:
            at = self.take().at
            escape = self.string()
            if len(escape) != 1:
                raise SqlSyntaxError(f"Expected single escape character but got: {escape}", at=at)
        return Like(at=left.at, operand=left, pattern=pattern, escape=escape, negated=negated)

    def _is(self, left: Expression) -> Expression:
        negated = self.accept("NOT")
        if self.accept("NULL"):
            return IsNull(at=left.at, operand=left, negated=negated)
        if self.next.word != "DISTINCT":
            self.fail(("NULL", "DISTINCT FROM") if negated else ("NULL", "NOT NULL", "DISTINCT FROM"))
        self.expect("DISTINCT", "FROM")
        operator = "IS NOT DISTINCT FROM" if negated else "IS DISTINCT FROM"
        return Comparison(at=left.at, operator=operator, left=left, right=self._operators(_VALUE))

    def _items(self) -> tuple[Expression, ...]:
        self.expect("(")
        items = [self._operators(_OR)]
        while self._more(items, ")"):
            items.append(self._operators(_OR))
        return tuple(items)

    # ----- units -----------------------------------------------------------------------------------------------------

    def _primary(self) -> Expression:
        """Takes a literal, a column, a call or a constructor, with the subscripts and fields that follow it."""
        base = self._unit()
        while True:
            word = self.next.word
            if word == "[":
                self.take()
                index = self._operators(_VALUE)
                self.expect("]")
                base = Subscript(at=base.at, base=base, index=index)
            elif word == "->" and self.ahead(1).word != "*":
                self.take()
                base = Dereference(at=base.at, base=base, field=self.identifier("the name (an identifier) of a field"))
            else:
                self.last_primary = base
                return base

    def _unit(self) -> Expression:
        token, after = self.next, self.ahead(1)
        constructor = _CONSTRUCTORS.get((token.word, after.word)) or _CONSTRUCTORS.get((token.word, ""))
        if constructor is not None:
            return constructor(self)
        if after.kind is Kind.STRING and token.kind in {Kind.WORD, Kind.QUOTED} and token.word not in _BEFORE_STRING:
            return self._typed_literal()
        if token.kind is not Kind.VARIABLE or after.word not in {"(", "."}:
            literal = self._literal_or_column(token)
            if literal is not None:
                return literal
        if not self.is_identifier(token):
            self.fail((), "an expression or identifier")
        name = self.identifier()
        if self.next.word == "(":
            return self._call(token, name)
        if self.next.word == ".":
            self.take()
            return ColumnRef(at=token.at, name=self.identifier("the name (an identifier) of a column"), source=name)
        return ColumnRef(at=token.at, name=name)

    def _parentheses(self) -> Expression:
        token = self.take()
        if self.next.word == "SELECT":
            raise SqlSyntaxError("the dialect has no subqueries", at=token.at, hint="use a join")
        inner = self._operators(_OR)
        self.expect(")")
        return inner

    def _literal_or_column(self, token: Token) -> Expression | None:
        """Takes a literal. A variable can also be the name of a column, if its value is an identifier."""
        if token.kind is Kind.VARIABLE:
            try:
                return self.literal()
            except SqlSyntaxError:
                return None
        return self.literal()

    def _typed_literal(self) -> Expression:
        token = self.take()
        if token.text.strip('`"').upper() != "DECIMAL":
            raise SqlSyntaxError(
                f"Unknown type: {token.text}",
                at=token.at,
                hint="only DECIMAL '1.20' is a literal with a type; a text is cast to dates by itself",
            )
        text = self.string()
        try:
            value = Decimal(text)
        except InvalidOperation:
            value = Decimal("NaN")
        if not value.is_finite():
            raise SqlSyntaxError(f"Invalid numeric literal: {text}", at=token.at)
        return Literal(at=token.at, value=value)

    def _case(self) -> Expression:
        at = self.expect("CASE").at
        operand = None if self.next.word == "WHEN" else self._operators(_VALUE)
        branches = []
        while self.accept("WHEN"):
            condition = self._operators(_OR)
            self.expect("THEN")
            branches.append((condition, self._operators(_OR)))
        if not branches:
            self.fail(("WHEN",))
        default = self._operators(_OR) if self.accept("ELSE") else None
        if self.next.word != "END":
            self.fail(("END",) if default is not None else ("WHEN", "ELSE", "END"))
        self.take()
        return Case(at=at, branches=tuple(branches), default=default, operand=operand)

    def _cast(self) -> Expression:
        at = self.expect("CAST", "(").at
        operand = self._operators(_OR)
        self.expect("AS")
        to = self.type()
        self.expect(")")
        return Cast(at=at, operand=operand, to=to)

    # The lists below are not taken by `listed`: each function between two levels of nesting costs depth.

    def _array(self) -> Expression:
        at = self.expect("ARRAY", "[").at
        items: list[Expression] = []
        while self._more(items, "]"):
            items.append(self._operators(_OR))
        return ArrayConstructor(at=at, items=tuple(items))

    def _struct_constructor(self) -> Expression:
        at = self.expect("STRUCT", "(").at
        fields: list[tuple[str, Expression]] = []
        while self._more(fields, ")"):
            name = self.identifier("the name (an identifier) of a field")
            self.expect(":=")
            fields.append((name, self._operators(_OR)))
            if len(fields) > MAX_COLUMNS:
                raise SqlSyntaxError(f"more than {MAX_COLUMNS} fields of a struct", at=self.next.at)
        return StructConstructor(at=at, fields=tuple(fields))

    def _map(self) -> Expression:
        at = self.expect("MAP", "(").at
        entries: list[tuple[Expression, Expression]] = []
        while self._more(entries, ")"):
            key = self._operators(_OR)
            self.expect(":=")
            entries.append((key, self._operators(_OR)))
        return MapConstructor(at=at, entries=tuple(entries))

    def _more(self, items: Sequence[object], end: str) -> bool:
        """Whether a list goes on: takes the comma before its next item, or its end."""
        if self.accept(end):
            return False
        if items:
            if self.next.word != ",":
                self.fail((",", end))
            self.take()
            if self.next.word == end:
                self.fail((), "an expression or identifier")
        return True

    # ----- calls -----------------------------------------------------------------------------------------------------

    def _call(self, token: Token, name: str) -> Expression:
        self.expect("(")
        name = name.upper()
        arguments: list[Expression] = []
        if self.next.word == "*" and self.ahead(1).word == ")":
            arguments.append(Star(at=self.take().at))
        elif self.next.word != ")":
            lambdas = False
            while True:
                parameters = self._parameters() if arguments else None
                if parameters is not None:
                    lambdas = True
                    arguments.append(Lambda(at=self.next.at, parameters=parameters, body=self._operators(_OR)))
                elif lambdas:
                    self.fail((), "a lambda such as x => x + 1: lambdas are the last arguments")
                else:
                    unit = self._unit_argument(name, first=not arguments)
                    arguments.append(self._operators(_OR) if unit is None else unit)
                if not self.accept(","):
                    break
        if self.next.word == "=>" and len(arguments) == 1:
            raise SqlSyntaxError("a lambda cannot be the first argument", at=self.next.at)
        self.expect(")")
        return Call(at=token.at, name=name, arguments=tuple(arguments))

    def _parameters(self) -> tuple[str, ...] | None:
        """Takes the parameters of a lambda and its arrow, if a lambda is next."""
        if self.is_identifier(self.next):
            if self.ahead(1).word != "=>":
                return None
            names: tuple[str, ...] = (self.identifier(),)
        else:
            if self.next.word != "(" or not self._parameters_ahead():
                return None
            self.take()
            names = self.listed(self.identifier)
            self.expect(")")
        self.expect("=>")
        return names

    def _parameters_ahead(self) -> bool:
        index = self.index + 1
        while self.is_identifier(self.tokens[index]):
            separator = self.tokens[index + 1].word
            if separator == ")":
                return self.tokens[index + 2].word == "=>"
            if separator != ",":
                return False
            index += 2
        return False

    def _unit_argument(self, name: str, *, first: bool) -> Expression | None:
        """Takes a unit of time. DAY and some others are also names of columns, except where a function wants a unit."""
        unit = unit_of(self.next.word)
        if unit is None or self.ahead(1).word not in {",", ")"}:
            return None
        if self.next.word not in RESERVED and not (first and name in _WITH_UNIT):
            return None
        return IntervalUnit(at=self.take().at, unit=unit)


_NUMBERS = {Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE}
_BEFORE_STRING = RESERVED - {"DECIMAL"}
_CONSTRUCTORS: dict[tuple[str, str], Callable[[ExpressionParser], Expression]] = {
    ("(", ""): ExpressionParser._parentheses,
    ("CASE", ""): ExpressionParser._case,
    ("CAST", ""): ExpressionParser._cast,
    ("ARRAY", "["): ExpressionParser._array,
    ("STRUCT", "("): ExpressionParser._struct_constructor,
    ("MAP", "("): ExpressionParser._map,
}
"""The methods for expressions that start with one word, or with two."""


def _binary(word: str, left: Expression, right: Expression) -> Expression:
    if word in {"AND", "OR"}:
        return Logical(at=left.at, operator=word, left=left, right=right)
    if word == "||":
        return Concatenation(at=left.at, left=left, right=right)
    return Arithmetic(at=left.at, operator=word, left=left, right=right)
