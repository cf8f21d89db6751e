"""The functions that start an expression."""

from __future__ import annotations

from millstream.expr.tree import Call, Case, Expr, Field, Operand, Root, Struct, to_expr


def col(name: str) -> Expr:
    """A field of the value. A dot separates nested fields; ``value()["a.b"]`` is a field with a dot in its name.

    >>> print(col("amount") + col("customer.discount"))
    amount + customer.discount
    """
    return _path(Root("value"), name)


def lit(value: Operand) -> Expr:
    """A constant. It is rarely needed: Python values in an expression become constants.

    >>> print(lit("a") + col("b"))
    'a' + b
    """
    return to_expr(value)


def when(condition: Operand, result: Operand) -> Case:
    """A CASE: the result of the first condition that is true, else that of ``otherwise``, else null.

    >>> print(when(col("amount") > 3, "big").otherwise("small"))
    CASE WHEN amount > 3 THEN 'big' ELSE 'small' END
    """
    return Case(((to_expr(condition), to_expr(result)),))


def key(name: str | None = None) -> Expr:
    """The key of the record, or a field of it.

    >>> print(key(), key("id"))
    key key.id
    """
    return _path(Root("key"), name)


def value(name: str | None = None) -> Expr:
    """The value of the record, or a field of it.

    >>> print(value().cast("string"))
    CAST(value AS STRING)
    """
    return _path(Root("value"), name)


def timestamp() -> Expr:
    """The timestamp of the record.

    >>> from millstream.expr import functions
    >>> print(functions.date_trunc("hour", timestamp()))
    date_trunc('hour', timestamp)
    """
    return Root("timestamp")


def header(name: str) -> Expr:
    """The value of the last header of this name, as bytes; null if there is none.

    >>> print(header("trace"))
    header(headers, 'trace')
    """
    return call("header", Root("headers"), name)


def left(name: str | None = None) -> Expr:
    """The left value of a join, or a field of it.

    >>> print(left("amount") * right("rate"))
    left.amount * right.rate
    """
    return _path(Root("left"), name)


def right(name: str | None = None) -> Expr:
    """The right value of a join, or a field of it.

    >>> print(right().is_null())
    right IS NULL
    """
    return _path(Root("right"), name)


def agg(name: str | None = None) -> Expr:
    """The current aggregate, or a field of it.

    >>> print(agg() + col("amount"))
    agg + amount
    """
    return _path(Root("agg"), name)


def struct(**fields: Operand) -> Expr:
    """A new struct; in Python, a dict.

    >>> print(struct(id=key(), total=col("amount") * 2))
    STRUCT(id := key, total := amount * 2)
    """
    return Struct(tuple((name, to_expr(field)) for name, field in fields.items()))


def array(*elements: Operand) -> Expr:
    """A new array; in Python, a list.

    >>> print(array(col("a"), 1))
    ARRAY[a, 1]
    """
    return call("array", *elements)


def call(function: str, *args: Operand) -> Expr:
    """A call of a function by name, in upper or lower case.

    >>> print(call("UPPER", col("name")))
    upper(name)
    """
    return Call(function.lower(), tuple(map(to_expr, args)))


def _path(base: Expr, name: str | None) -> Expr:
    for part in name.split(".") if name is not None else ():
        base = Field(base, part)
    return base
