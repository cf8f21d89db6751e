"""Binds expressions: resolves columns and functions, checks types, and inserts conversions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from millstream.errors import SqlError, SqlStatementError, suggestion
from millstream.sql.binder import bound
from millstream.sql.functions import (
    MISSING,
    Argument,
    Catalogue,
    LambdaArgument,
    TypedArgument,
    UnitArgument,
    arithmetic,
    cast,
    coerce,
    common_type,
    comparison,
    distinct,
    equality,
    like_matcher,
    literal_type,
    negation,
    widening,
    widens,
)
from millstream.sql.syntax import tree
from millstream.sql.syntax.preparation import PreparationError
from millstream.sql.syntax.text import message_text, text_of as expression_text
from millstream.sql.types import BIGINT, BOOLEAN, INTEGER, STRING, ArrayType, MapType, SqlType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator


class ExpressionBinder:
    """Binds the expressions of one clause.

    Attributes:
        columns: Resolves the names of columns.
        catalogue: The functions.
        types: The user's types, by name.
        isolates: An element of ARRAY, MAP and STRUCT that fails is null, not all of the value.
    """

    def __init__(
        self,
        columns: Callable[[tree.ColumnRef], tuple[str, SqlType]],
        catalogue: Catalogue,
        types: Mapping[str, SqlType],
        *,
        isolates: bool = True,
    ) -> None:
        self.isolates = isolates
        self.columns = columns
        self.catalogue = catalogue
        self.types = types
        self._parameters: dict[str, SqlType] = {}
        self._bodies: dict[int, bound.LambdaValue] = {}

    def bind(self, expression: tree.Expression) -> bound.Bound:
        """Returns the bound form of an expression.

        Raises:
            SqlStatementError: A name is unknown, or types do not fit; with the position of the operator.
        """
        with _at(expression):
            return self._bind(expression)

    def bind_condition(self, expression: tree.Expression, clause: str) -> bound.Bound:
        """Binds the condition of WHERE or HAVING, which must be a BOOLEAN."""
        try:
            condition = self.bind(expression)
        except SqlStatementError as error:
            raise SqlStatementError(
                f"Error in {clause} expression: {error.message}\nStatement: {message_text(expression)}",
                hint=error.hint,
                at=None if error.line is None or error.column is None else (error.line, error.column),
            ) from error
        if condition.type != BOOLEAN:
            raise SqlStatementError(
                f"Type error in {clause} expression: Should evaluate to boolean but is {expression_text(expression)} "
                f"({condition.type or 'NULL'}) instead.",
                at=expression.at,
            )
        return condition

    # ----- dispatch --------------------------------------------------------------------------------------------------

    @functools.singledispatchmethod
    def _bind(self, expression: tree.Expression) -> bound.Bound:
        raise SqlStatementError(f"{expression_text(expression)} is not allowed here", at=expression.at)

    @_bind.register
    def _literal(self, expression: tree.Literal) -> bound.Bound:
        return bound.Constant(type=literal_type(expression.value), value=expression.value)

    @_bind.register
    def _column(self, expression: tree.ColumnRef) -> bound.Bound:
        if expression.source is None and expression.name in self._parameters:
            return bound.ParameterValue(type=self._parameters[expression.name], name=expression.name)
        name, type_ = self.columns(expression)
        return bound.ColumnValue(type=type_, name=name)

    @_bind.register
    def _field(self, expression: tree.Dereference) -> bound.Bound:
        base = self.bind(expression.base)
        if not isinstance(base.type, StructType):
            raise SqlStatementError(
                f"Expected STRUCT type, got: {base.type or 'NULL'}, in {expression_text(expression)}", at=expression.at
            )
        type_ = base.type.field(expression.field)
        if type_ is None:
            names = [name for name, _type in base.type.fields]
            raise SqlStatementError(
                f"Could not find field '{expression.field}' in '{expression_text(expression.base)}'. "
                f"The available fields are: {', '.join(names)}.",
                hint=suggestion(expression.field, names),
                at=expression.at,
            )
        return bound.FieldValue(type=type_, operand=base, field=expression.field)

    @_bind.register
    def _item(self, expression: tree.Subscript) -> bound.Bound:
        base, index = self.bind(expression.base), self.bind(expression.index)
        if isinstance(base.type, ArrayType):
            if index.type not in (INTEGER, BIGINT):
                raise SqlStatementError(f"the index of an array is an INTEGER or BIGINT, not {index.type or 'NULL'}")
            return bound.Apply(type=base.type.element, call=_element, operands=(base, index), nulls="null", name="[]")
        if isinstance(base.type, MapType):
            convert = None if index.type is None else widening(index.type, base.type.key)
            return bound.Apply(
                type=base.type.value,
                call=_entry,
                operands=(base, index),
                nulls="null",
                converters=(None, convert),
                name="[]",
            )
        raise SqlStatementError(f"{base.type or 'NULL'} has no elements: only arrays and maps take a subscript")

    @_bind.register
    def _unary(self, expression: tree.Unary) -> bound.Bound:
        operand = self.bind(expression.operand)
        call = negation(operand.type)
        if expression.operator == "+":
            return operand
        return bound.Apply(type=operand.type, call=call, operands=(operand,), nulls="raise", name="-")

    @_bind.register
    def _arithmetic(self, expression: tree.Arithmetic) -> bound.Bound:
        left, right = self.bind(expression.left), self.bind(expression.right)
        try:
            result, call = arithmetic(expression.operator, left.type, right.type)
        except SqlStatementError as error:
            raise SqlStatementError(
                f"Error processing expression: {message_text(expression)}. {error.message}", hint=error.hint
            ) from error
        # The text of a null is "null" where strings are concatenated by +.
        nulls: bound.Nulls = "see" if result == STRING else "raise"
        return bound.Apply(type=result, call=call, operands=(left, right), nulls=nulls, name=expression.operator)

    @_bind.register
    def _concatenation(self, expression: tree.Concatenation) -> bound.Bound:
        return self._call_of("CONCAT", (expression.left, expression.right), expression)

    @_bind.register
    def _comparison(self, expression: tree.Comparison) -> bound.Bound:
        return self._compared(expression.operator, expression.left, expression.right)

    def _compared(self, operator: str, one: tree.Expression, other: tree.Expression) -> bound.Bound:
        left, right = self.bind(one), self.bind(other)
        shown = expression_text(one), expression_text(other)
        if "DISTINCT" in operator:
            test = bound.Apply(
                type=BOOLEAN,
                call=distinct(left.type, right.type, shown),
                operands=(left, right),
                nulls="see",
                name=operator,
            )
            return bound.Negation(type=BOOLEAN, operand=test) if "NOT" in operator else test
        call = comparison(operator, left.type, right.type, shown)
        return bound.Apply(type=BOOLEAN, call=call, operands=(left, right), nulls="false", name=operator)

    @_bind.register
    def _logical(self, expression: tree.Logical) -> bound.Bound:
        left, right = self._boolean(expression.left), self._boolean(expression.right)
        return bound.Junction(type=BOOLEAN, operator=expression.operator, left=left, right=right)

    def _boolean(self, expression: tree.Expression) -> bound.Bound:
        operand = self.bind(expression)
        if operand.type != BOOLEAN:
            raise SqlStatementError(
                f"{expression_text(expression)} should be a BOOLEAN, but is {operand.type or 'NULL'}", at=expression.at
            )
        return operand

    @_bind.register
    def _not(self, expression: tree.Not) -> bound.Bound:
        return bound.Negation(type=BOOLEAN, operand=self._boolean(expression.operand))

    @_bind.register
    def _is_null(self, expression: tree.IsNull) -> bound.Bound:
        return bound.NullTest(type=BOOLEAN, operand=self.bind(expression.operand), negated=expression.negated)

    @_bind.register
    def _between(self, expression: tree.Between) -> bound.Bound:
        test: bound.Bound = bound.Junction(
            type=BOOLEAN,
            operator="AND",
            left=self._compared(">=", expression.operand, expression.low),
            right=self._compared("<=", expression.operand, expression.high),
        )
        return bound.Negation(type=BOOLEAN, operand=test) if expression.negated else test

    @_bind.register
    def _in(self, expression: tree.InList) -> bound.Bound:
        operand = self.bind(expression.operand)
        items = [self.bind(item) for item in expression.items]
        try:
            common = _common([operand, *items])
            candidates = [self._converted(item, common) for item in items if item.type is not None]
            value = self._converted(operand, common)
        except SqlStatementError as error:
            raise SqlStatementError(f"Invalid Predicate: {error.message}", hint=error.hint) from error
        equal = equality(common, common)

        def contains(one: Any, *others: Any) -> bool:
            return one is not None and any(other is not None and equal(one, other) for other in others)

        test = bound.Apply(type=BOOLEAN, call=contains, operands=(value, *candidates), nulls="see", name="IN")
        return bound.Negation(type=BOOLEAN, operand=test) if expression.negated else test

    @_bind.register
    def _like(self, expression: tree.Like) -> bound.Bound:
        operand, pattern = self.bind(expression.operand), self.bind(expression.pattern)
        if operand.type != STRING or pattern.type != STRING:
            raise SqlStatementError("LIKE compares a STRING with a STRING")
        escape = expression.escape

        def match(text: str, pattern_text: str) -> bool:
            return like_matcher(pattern_text, escape)(text)

        test: bound.Bound = bound.Apply(
            type=BOOLEAN, call=match, operands=(operand, pattern), nulls="raise", name="LIKE"
        )
        if isinstance(pattern, bound.Constant):
            # A pattern that ends with its escape character is an error of each row, not of the statement.
            with suppress(ValueError):
                matches = like_matcher(pattern.value, escape)
                test = bound.Apply(type=BOOLEAN, call=matches, operands=(operand,), nulls="raise", name="LIKE")
        return bound.Negation(type=BOOLEAN, operand=test) if expression.negated else test

    @_bind.register
    def _case(self, expression: tree.Case) -> bound.Bound:
        if expression.operand is not None:
            raise SqlStatementError("CASE with an operand is not supported", hint="write CASE WHEN x = 1 THEN …")
        branches = []
        result: SqlType | None = None
        for when, then in expression.branches:
            condition = self.bind(when)
            if condition.type != BOOLEAN:
                raise SqlStatementError(
                    f"WHEN operand type should be boolean. Type for '{expression_text(when)}' is "
                    f"{condition.type or 'NULL'}",
                    at=when.at,
                )
            branches.append((condition, self.bind(then)))
        default = bound.Constant(type=None, value=None) if expression.default is None else self.bind(expression.default)
        for outcome in (*(then for _when, then in branches), default):
            if outcome.type is None:
                continue
            if result is not None and outcome.type != result:
                raise SqlStatementError(
                    f"Invalid Case expression. Type for all 'THEN' clauses should be the same. Expected {result}, "
                    f"got {outcome.type}"
                )
            result = outcome.type
        if result is None:
            raise SqlStatementError("Invalid Case expression. All case branches have a NULL type")
        return bound.Choice(type=result, branches=tuple(branches), default=default)

    @_bind.register
    def _cast(self, expression: tree.Cast) -> bound.Bound:
        to = resolve_type(expression.to, self.types)
        operand = self.bind(expression.operand)
        # The result is no literal, even of one: it does not adapt to the types around it.
        convert = None if operand.type is None else cast(operand.type, to)
        return bound.Conversion(type=to, operand=operand, convert=_same if convert is None else convert)

    # ----- calls and constructors ------------------------------------------------------------------------------------

    @_bind.register
    def _call(self, expression: tree.Call) -> bound.Bound:
        if self.catalogue.is_aggregate(expression.name):
            raise SqlStatementError(f"Aggregate functions can not be used here: {expression.name}", at=expression.at)
        if self.catalogue.is_table_function(expression.name):
            raise SqlStatementError(f"Table functions can not be used here: {expression.name}", at=expression.at)
        return self._call_of(expression.name, expression.arguments, expression)

    def _call_of(self, name: str, arguments: tuple[tree.Expression, ...], at: tree.Expression) -> bound.Bound:
        operands: list[bound.Bound | None] = []
        described: list[Argument] = []
        for argument in arguments:
            if isinstance(argument, tree.Lambda):
                operands.append(None)
                described.append(LambdaArgument(len(argument.parameters), functools.partial(self._result, argument)))
            elif isinstance(argument, tree.IntervalUnit):
                operands.append(bound.Constant(type=STRING, value=argument.unit))
                described.append(UnitArgument(argument.unit))
            else:
                operand = self.bind(argument)
                operands.append(operand)
                described.append(describe_argument(operand))
        call = self.catalogue.resolve_scalar(name, described)
        final = tuple(
            self._bodies.pop(id(argument)) if operand is None else operand
            for operand, argument in zip(operands, arguments, strict=True)
        )
        return bound.Apply(
            type=call.result,
            call=call.call,
            operands=final,
            nulls="null" if call.strict else "see",
            converters=call.converters,
            name=name,
            is_function=True,
            deterministic=call.deterministic,
        )

    def _result(self, expression: tree.Lambda, types: tuple[SqlType, ...]) -> SqlType:
        """Binds a lambda for parameters of these types, and returns the type of its result."""
        outer = self._parameters
        for name in expression.parameters:
            if name in outer:
                raise PreparationError(f"Reusing lambda arguments in nested lambda is not allowed: {name}")
            self._refuse_column(name, expression)
        self._parameters = {**outer, **dict(zip(expression.parameters, types, strict=True))}
        try:
            body = self.bind(expression.body)
        finally:
            self._parameters = outer
        if body.type is None:
            raise SqlStatementError("the result of a lambda has no type: it is NULL", hint="write CAST(NULL AS …)")
        self._bodies[id(expression)] = bound.LambdaValue(type=body.type, parameters=expression.parameters, body=body)
        return body.type

    def _refuse_column(self, name: str, expression: tree.Lambda) -> None:
        try:
            self.columns(tree.ColumnRef(at=expression.at, name=name))
        except SqlStatementError:
            return
        raise SqlStatementError(
            f"Lambda function argument can't be a column name: {name}", at=expression.at, hint="choose another name"
        )

    @_bind.register
    def _array(self, expression: tree.ArrayConstructor) -> bound.Bound:
        items = [self.bind(item) for item in expression.items]
        if not items:
            raise SqlStatementError("Array constructor cannot be empty. Please supply at least one element")
        if all(item.type is None for item in items):
            raise SqlStatementError("Cannot construct an array with all NULL elements")
        common = _common(items)
        converted = tuple(self._converted(item, common) for item in items)
        return bound.MakeArray(type=ArrayType(common), items=converted, isolates=self.isolates)

    @_bind.register
    def _map(self, expression: tree.MapConstructor) -> bound.Bound:
        entries = [(self.bind(key), self.bind(value)) for key, value in expression.entries]
        if not entries:
            raise SqlStatementError("Map constructor cannot be empty. Please supply at least one key value pair")
        if all(key.type is None for key, _value in entries):
            raise SqlStatementError("Cannot construct a map with all NULL keys")
        if all(value.type is None for _key, value in entries):
            raise SqlStatementError("Cannot construct a map with all NULL values")
        texts = [expression_text(key) for key, _value in expression.entries]
        if len(set(texts)) < len(texts):
            raise PreparationError("Map values must be unique: a key occurs twice")
        keys = _common([key for key, _value in entries])
        values = _common([value for _key, value in entries])
        return bound.MakeMap(
            type=MapType(keys, values),
            entries=tuple((self._converted(key, keys), self._converted(value, values)) for key, value in entries),
            isolates=self.isolates,
        )

    @_bind.register
    def _struct(self, expression: tree.StructConstructor) -> bound.Bound:
        fields = [(name, self.bind(value)) for name, value in expression.fields]
        names = [name for name, _value in fields]
        if len(set(names)) < len(names):
            raise PreparationError("Duplicate field names found in STRUCT: each field has a name of its own")
        for name, value in fields:
            if value.type is None:
                raise SqlStatementError(f"the field {name} has no type: it is NULL", hint="write CAST(NULL AS …)")
        types = tuple((name, value.type) for name, value in fields if value.type is not None)
        return bound.MakeStruct(type=StructType(types), fields=tuple(fields), isolates=self.isolates)

    def _converted(self, operand: bound.Bound, to: SqlType) -> bound.Bound:
        """Returns an operand, converted to a type that it can have implicitly."""
        if operand.type == to:
            return operand
        if operand.type is None:
            return bound.Constant(type=to, value=None)
        convert = coerce(describe_argument(operand), to)
        if isinstance(operand, bound.Constant):
            return bound.Constant(type=to, value=operand.value if convert is None else _literal(operand, convert, to))
        return bound.Conversion(type=to, operand=operand, convert=_same if convert is None else convert)


def describe_argument(operand: bound.Bound) -> TypedArgument:
    """Describes an operand; the items of constructors, too, because literals in them adapt to other types."""
    parts: tuple[tuple[bound.Bound, ...], ...] = ()
    if isinstance(operand, bound.MakeArray):
        parts = (operand.items,)
    elif isinstance(operand, bound.MakeMap):
        parts = tuple(zip(*operand.entries, strict=True))
    elif isinstance(operand, bound.MakeStruct):
        parts = tuple((value,) for _name, value in operand.fields)
    literal = operand.value if isinstance(operand, bound.Constant) else MISSING
    return TypedArgument(operand.type, literal, tuple(tuple(map(describe_argument, items)) for items in parts))


def _common(operands: Sequence[bound.Bound]) -> SqlType:
    common = common_type([describe_argument(operand) for operand in operands])
    if common is None:
        raise SqlStatementError("all items are NULL, so they have no type", hint="write CAST(NULL AS …)")
    return common


def _same(value: Any) -> Any:
    return value


def _literal(operand: bound.Constant, convert: Callable[[Any], Any], to: SqlType) -> Any:
    try:
        return convert(operand.value)
    except (ValueError, ArithmeticError) as error:
        raise SqlStatementError(f'invalid input syntax for type {to}: "{operand.value}". {error}') from None


def _element(array: list[Any], index: int) -> Any:
    index = (index + 2**31) % 2**32 - 2**31
    position = index - 1 if index > 0 else len(array) + index
    return array[position] if index != 0 and 0 <= position < len(array) else None


def _entry(mapping: dict[Any, Any], key: Any) -> Any:
    return mapping.get(key)


@contextmanager
def _at(expression: tree.Expression) -> Iterator[None]:
    """Gives errors without a place the position of an expression."""
    try:
        yield
    except SqlError as error:
        if error.line is None:
            error.line, error.column = expression.at
        raise


def resolve_type(ref: tree.TypeRef, types: Mapping[str, SqlType]) -> SqlType:
    """Returns a type with the names of user types replaced.

    Raises:
        SqlStatementError: There is no type of that name.
    """
    if isinstance(ref, tree.KnownType):
        return ref.type
    if isinstance(ref, tree.NamedType):
        if ref.name not in types:
            raise PreparationError(
                f"Cannot resolve unknown type: {ref.name}", hint=suggestion(ref.name, types), at=ref.at
            )
        return types[ref.name]
    if isinstance(ref, tree.ArrayTypeRef):
        return ArrayType(resolve_type(ref.element, types))
    if isinstance(ref, tree.MapTypeRef):
        return MapType(resolve_type(ref.key, types), resolve_type(ref.value, types))
    assert isinstance(ref, tree.StructTypeRef)
    return StructType(tuple((name, resolve_type(type_, types)) for name, type_ in ref.fields))


def convert_column(have: SqlType, want: SqlType) -> bool:
    """Whether a column of a query fits a column of another type."""
    return widens(have, want)
