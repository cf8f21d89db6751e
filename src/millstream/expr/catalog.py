"""The catalog: one row for each operator and function of expressions."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from millstream.errors import ExpressionError, suggestion
from millstream.expr import arithmetic, containers, datetimes, logic, signature, strings, values
from millstream.expr.signature import Function, Rule, first, parse_signature
from millstream.expr.types import (
    ANY,
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    ArrayType,
    DataType,
    common_type,
)

CATALOG: dict[str, Function] = {}


def lookup(name: str) -> Function:
    """Returns the function of that name.

    >>> lookup("uper")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    millstream.errors.ExpressionError: ...: there is no function 'uper'
      hint: did you mean 'upper'?
    """
    function = CATALOG.get(name)
    if function is None:
        raise ExpressionError(f"there is no function {name!r}", hint=suggestion(name, CATALOG))
    return function


def _row(
    text: str,
    result: DataType | Rule,
    implementation: Callable[..., Any],
    doc: str,
    example: str = "",
    *,
    strict: bool = True,
    constants: Mapping[int, Callable[[Any], Any]] | None = None,
) -> None:
    """Adds a function; ``constants`` has checks of literal arguments, by position."""
    name, parameters = parse_signature(text)
    CATALOG[name] = Function(name, text, parameters, result, implementation, strict, constants or {}, doc, example)


def _sees_null(text: str, result: DataType | Rule, implementation: Callable[..., Any], doc: str, example: str) -> None:
    _row(text, result, implementation, doc, example, strict=False)


def _operators() -> None:
    for symbol, implementation in (
        ("+", arithmetic.add),
        ("-", arithmetic.subtract),
        ("*", arithmetic.multiply),
        ("/", arithmetic.divide),
        ("//", arithmetic.floor_divide),
        ("%", arithmetic.modulo),
    ):
        _row(f"{symbol}(left: any, right: any)", signature.arithmetic(symbol), implementation, "Arithmetic.")
    for symbol, implementation in (("=", values.equal), ("<>", values.unequal)):
        _row(f"{symbol}(left: any, right: any)", signature.comparison, implementation, "Whether two values are equal.")
    for symbol, implementation in (("<", operator.lt), ("<=", operator.le), (">", operator.gt), (">=", operator.ge)):
        _row(f"{symbol}(left: any, right: any)", signature.ordering, implementation, "The order of two values.")
    _row("[](container: any, index: any)", signature.element, values.item, "An element from 0, or a map's value.")
    _row("negative(x: number)", first, arithmetic.negative, "The number with the other sign.", "negative(3) -> -3")


def _logic() -> None:
    conjunction, disjunction = "and(left: boolean, right: boolean)", "or(left: boolean, right: boolean)"
    _sees_null(conjunction, BOOLEAN, logic.conjunction, "Whether both are true.", "and_(None, False) -> False")
    _sees_null(disjunction, BOOLEAN, logic.disjunction, "Whether one is true.", "or_(None, True) -> True")
    _row("not(condition: boolean)", BOOLEAN, logic.negation, "Whether it is false.", "not_(True) -> False")
    _sees_null("is_null(x: any)", BOOLEAN, logic.is_null, "Whether it is null.", "is_null(None) -> True")
    _sees_null("is_not_null(x: any)", BOOLEAN, logic.is_not_null, "Whether it is not null.", "is_not_null(1) -> True")
    _sees_null("is_distinct_from(left: any, right: any)", signature.comparison, values.distinct,
               "Whether two values differ, with null as a value.", "is_distinct_from(None, 1) -> True")  # fmt: skip
    _sees_null("in(x: any, options: any+)", signature.comparison, logic.member,
               "Whether it is one of the options.", "in_(2, 1, 2) -> True")  # fmt: skip
    _sees_null("between(x: any, low: any, high: any)", signature.ordering, logic.between,
               "Whether it is neither less than low nor more than high.", "between(2, 1, 2) -> True")  # fmt: skip
    _sees_null("coalesce(options: any+)", common_type, logic.coalesce, "The first that is not null.",
               "coalesce(None, 2, 3) -> 2")  # fmt: skip
    _sees_null("ifnull(x: any, default: any)", common_type, logic.coalesce, "The default if x is null, else x.",
               "ifnull(None, 2) -> 2")  # fmt: skip
    _sees_null("nullif(x: any, y: any)", signature.first_of_common, logic.nullif, "Null if x equals y, else x.",
               "nullif(0, 0) -> None")  # fmt: skip
    _sees_null("greatest(options: any+)", common_type, logic.greatest, "The greatest that is not null.",
               "greatest(1, None, 3) -> 3")  # fmt: skip
    _sees_null("least(options: any+)", common_type, logic.least, "The least that is not null.",
               "least(1, None, 3) -> 1")  # fmt: skip
    _sees_null("try(x: any)", first, logic.coalesce, "Null if the evaluation of x raises, else x.",
               "try_(lit(1) / 0) -> None")  # fmt: skip


def _strings() -> None:
    _row("upper(text: string)", STRING, str.upper, "The text in upper case.", "upper('abc') -> 'ABC'")
    _row("lower(text: string)", STRING, str.lower, "The text in lower case.", "lower('ABC') -> 'abc'")
    _row("initcap(text: string)", STRING, strings.initcap, "Each word with a capital.", "initcap('a dog') -> 'A Dog'")
    _row("trim(text: string)", STRING, str.strip, "Without white space around it.", "trim(' a ') -> 'a'")
    _row("ltrim(text: string)", STRING, str.lstrip, "Without white space before it.", "ltrim(' a ') -> 'a '")
    _row("rtrim(text: string)", STRING, str.rstrip, "Without white space after it.", "rtrim(' a ') -> ' a'")
    _row("length(x: sized)", INT, len, "The number of characters, bytes or elements.", "length('abc') -> 3")
    _row("reverse(text: sized)", first, strings.reverse, "In the opposite order.", "reverse('abc') -> 'cba'")
    _row("substring(text: text, start: integer, length: integer?)", first, strings.substring,
         "A part of a text. Positions count from 1, or from the end if negative.",
         "substring('stream', 2, 3) -> 'tre'")  # fmt: skip
    _row("replace(text: string, old: string, new: string)", STRING, str.replace, "Every old replaced by new.",
         "replace('a-b', '-', '+') -> 'a+b'")  # fmt: skip
    _sees_null("concat(parts: text+)", common_type, strings.concat,
               "The parts joined; nulls are left out.", "concat('a', None, 'b') -> 'ab'")  # fmt: skip
    _row("split(text: string, delimiter: string)", ArrayType(STRING), strings.split, "The parts between delimiters.",
         "split('a,b', ',') -> ['a', 'b']")  # fmt: skip
    _row("contains(text: text, part: text)", signature.comparison, strings.contains, "Whether the part occurs.",
         "contains('abc', 'b') -> True")  # fmt: skip
    _row("starts_with(text: string, prefix: string)", BOOLEAN, str.startswith, "Whether it begins with the prefix.",
         "starts_with('abc', 'ab') -> True")  # fmt: skip
    _row("ends_with(text: string, suffix: string)", BOOLEAN, str.endswith, "Whether it ends with the suffix.",
         "ends_with('abc', 'bc') -> True")  # fmt: skip
    _row("instr(text: string, part: string)", INT, strings.instr, "Where the part begins, from 1; 0 if nowhere.",
         "instr('abc', 'c') -> 3")  # fmt: skip
    _row("lpad(text: string, length: integer, padding: string)", STRING, strings.pad_left,
         "Filled up at the left, or cut, to a length.", "lpad('7', 3, '0') -> '007'")  # fmt: skip
    _row("rpad(text: string, length: integer, padding: string)", STRING, strings.pad_right,
         "Filled up at the right, or cut, to a length.", "rpad('7', 3, '.') -> '7..'")  # fmt: skip
    _row("like(text: string, pattern: string, escape: string?)", BOOLEAN, strings.like,
         "Whether the whole text matches a pattern: % is any text, _ any character.",
         "like('abc', 'a%') -> True")  # fmt: skip
    regexp = {1: re.compile}
    _row("regexp_like(text: string, pattern: string)", BOOLEAN, strings.regexp_like,
         "Whether a regular expression (Python's) is found.", "regexp_like('abc', 'b.') -> True",
         constants=regexp)  # fmt: skip
    _row("regexp_extract(text: string, pattern: string, group: integer?)", STRING, strings.regexp_extract,
         "The first match of a regular expression, or a group of it; null if there is none.",
         "regexp_extract('id=42', '=([0-9]+)', 1) -> '42'", constants=regexp)  # fmt: skip
    _row("regexp_replace(text: string, pattern: string, replacement: string)", STRING, strings.regexp_replace,
         "Every match of a regular expression replaced.", "regexp_replace('a1b2', '[0-9]', '') -> 'ab'",
         constants=regexp)  # fmt: skip
    _row("md5(data: text)", STRING, strings.md5, "The MD5, in hexadecimal; of a text, its UTF-8.",
         "md5('') -> 'd41d8cd98f00b204e9800998ecf8427e'")  # fmt: skip
    _row("sha256(data: text)", STRING, strings.sha256, "The SHA-256, in hexadecimal; of a text, its UTF-8.",
         "substring(sha256(''), 1, 8) -> 'e3b0c442'")  # fmt: skip
    encoding = {1: strings.check_encoding}
    _row("to_bytes(text: string, encoding: string)", BYTES, strings.to_bytes,
         "The bytes of a text in utf8, ascii, hex or base64.", "to_bytes('ff', 'hex') -> b'\\xff'",
         constants=encoding)  # fmt: skip
    _row("from_bytes(data: bytes, encoding: string)", STRING, strings.from_bytes,
         "The text of bytes in utf8, ascii, hex or base64.", "from_bytes(b'ab', 'utf8') -> 'ab'",
         constants=encoding)  # fmt: skip
    _row("json_extract(document: any, path: string)", ANY, strings.json_extract,
         "The value at a path of a JSON text; null if there is none.",
         """json_extract('{"a": {"b": [1, 2]}}', 'a.b[1]') -> 2""", constants={1: strings.json_path})  # fmt: skip


def _numbers() -> None:
    _row("abs(x: number)", first, abs, "Without the sign.", "abs(-3) -> 3")
    _row("sign(x: number)", INT, arithmetic.sign, "-1, 0 or 1.", "sign(-3) -> -1")
    _row("ceil(x: number)", first, arithmetic.ceil, "Rounded up.", "ceil(1.2) -> 2.0")
    _row("floor(x: number)", first, arithmetic.floor, "Rounded down.", "floor(-1.2) -> -2.0")
    _row("trunc(x: number)", first, arithmetic.truncate, "Rounded towards zero.", "trunc(-1.2) -> -1.0")
    _row("round(x: number, places: integer?)", first, arithmetic.round_half_up,
         "Rounded, with halves away from zero.", "round(2.675, 2) -> 2.68")  # fmt: skip
    _row("sqrt(x: number)", DOUBLE, math.sqrt, "The square root.", "sqrt(9) -> 3.0")
    _row("exp(x: number)", DOUBLE, math.exp, "e to the power of x.", "exp(0) -> 1.0")
    _row("ln(x: number)", DOUBLE, math.log, "The natural logarithm.", "ln(1) -> 0.0")
    _row("log10(x: number)", DOUBLE, math.log10, "The logarithm to base 10.", "log10(1000) -> 3.0")
    _row("power(x: number, y: number)", DOUBLE, math.pow, "x to the power of y.", "power(2, 10) -> 1024.0")
    _row("div(x: number, y: number)", signature.arithmetic("div"), arithmetic.div,
         "The quotient, rounded towards zero.", "div(-7, 2) -> -3")  # fmt: skip
    _row("mod(x: number, y: number)", signature.arithmetic("mod"), arithmetic.mod,
         "The remainder of div, with the sign of x.", "mod(-7, 2) -> -1")  # fmt: skip


def _datetimes() -> None:
    unit = {0: datetimes.check_unit}
    zone = {2: datetimes.zone_of}
    _row("date_trunc(unit: string, ts: timestamp)", TIMESTAMP, datetimes.date_trunc,
         "The start of the second, minute, hour, day, week, month, quarter or year, in UTC.",
         "date_trunc('hour', 3_600_001) -> 3600000", constants=unit)  # fmt: skip
    _row("timestamp_add(unit: string, count: integer, ts: timestamp)", TIMESTAMP, datetimes.timestamp_add,
         "Later by a number of units.", "timestamp_add('day', 1, 0) -> 86400000", constants=unit)  # fmt: skip
    _row("extract(part: string, moment: moment)", INT, datetimes.extract,
         "A part of a timestamp or date, in UTC; dow counts from Sunday as 0, isodow from Monday as 1.",
         "extract('year', 0) -> 1970", constants={0: datetimes.check_part})  # fmt: skip
    _row("format_timestamp(ts: timestamp, pattern: string, zone: string?)", STRING, datetimes.format_timestamp,
         "The text by a pattern of strftime codes.", "format_timestamp(0, '%Y-%m-%d') -> '1970-01-01'",
         constants=zone)  # fmt: skip
    _row("parse_timestamp(text: string, pattern: string, zone: string?)", TIMESTAMP, datetimes.parse_timestamp,
         "The timestamp in a text, by a pattern of strptime codes.",
         "parse_timestamp('02/01/1970', '%d/%m/%Y') -> 86400000", constants=zone)  # fmt: skip
    _row("unix_timestamp(ts: timestamp)", BIGINT, datetimes.unix_timestamp, "Milliseconds since 1970, as a number.",
         "unix_timestamp(5) -> 5")  # fmt: skip


def _containers() -> None:
    _sees_null("array(elements: any*)", signature.array_of, containers.array, "An array of the elements.",
               "array(1, 2) -> [1, 2]")  # fmt: skip
    _row("element_at(container: any, index: any)", signature.element, containers.element_at,
         "An element, from 1 as in SQL, or a map's value; null if there is none.",
         "element_at(array(1, 2), 1) -> 1")  # fmt: skip
    _sees_null("array_contains(elements: array, element: any)", signature.membership, containers.array_contains,
               "Whether an element is in an array.", "array_contains(array(1, 2), 2) -> True")  # fmt: skip
    _row("array_join(elements: array, separator: string)", STRING, containers.array_join,
         "The texts of an array, joined; nulls are left out.", "array_join(array('a', 'b'), '-') -> 'a-b'")  # fmt: skip
    _row("header(headers: any, name: string)", BYTES, containers.header,
         "The value of the last header of a name, as bytes; null if there is none.",
         "header(array(), 'trace') -> None")  # fmt: skip
    _row("map_keys(mapping: map)", signature.map_keys, containers.map_keys, "The keys of a map.")
    _row("map_values(mapping: map)", signature.map_values, containers.map_values, "The values of a map.")


for _family in (_operators, _logic, _strings, _numbers, _datetimes, _containers):
    _family()
