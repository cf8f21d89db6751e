"""The small language of functions in vectors: compiled to Python functions, with their result types."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from millstream import Windowed

_LONG = re.compile(r"-?[0-9]{1,15}")


def spell(value: Any) -> str:
    """The text form of a value."""
    if value is None:
        return "null"
    if isinstance(value, Windowed):
        return f"[{spell(value.key)}@{value.start}/{value.end}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def compile_expression(expression: Any, params: tuple[str, ...]) -> Callable[..., Any]:
    """Compiles an expression to a function of the named parameters."""
    run = _compile(expression)
    if not params:
        return lambda: run({})
    if len(params) == 2:
        first, second = params
        return lambda a, b: run({first: a, second: b})
    if len(params) == 3:
        first, second, third = params
        return lambda a, b, c: run({first: a, second: b, third: c})
    first, second, third, fourth = params
    return lambda a, b, c, d: run({first: a, second: b, third: c, fourth: d})


def _compile(expression: Any) -> Callable[[dict[str, Any]], Any]:
    if isinstance(expression, str):
        return lambda env: env[expression]
    if isinstance(expression, int):
        return lambda env: expression
    name, *args = expression
    if name == "lit":
        return lambda env: args[0]
    if name == "null":
        return lambda env: None
    if name == "fail":

        def fail(env: dict[str, Any]) -> Any:
            raise RuntimeError(args[0])

        return fail
    parts = [_compile(arg) for arg in args]
    if name == "if":
        return lambda env: parts[1](env) if parts[0](env) else parts[2](env)
    if name == "coalesce":
        return lambda env: value if (value := parts[0](env)) is not None else parts[1](env)
    if name == "and":
        return lambda env: all(part(env) for part in parts)
    if name == "or":
        return lambda env: any(part(env) for part in parts)
    function = FUNCTIONS[name]
    return lambda env: function(*(part(env) for part in parts))


def _remove(x: str | None, y: Any) -> str | None:
    return None if x is None else x.replace(spell(y), "", 1)


def _part(x: str | None, index: int) -> str | None:
    if x is None:
        return None
    parts = x.split(":")
    return parts[index] or None if index < len(parts) else None


def _nullable(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: None if any(a is None for a in args) else function(*args)


def _compare(function: Callable[[int, int], bool]) -> Callable[..., bool]:
    return lambda x, y: x is not None and y is not None and function(x, y)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "str": spell,
    "concat": lambda *xs: "".join(map(spell, xs)),
    "upper": _nullable(str.upper),
    "lower": _nullable(str.lower),
    "length": _nullable(len),
    "long": lambda x: int(x) if x is not None and _LONG.fullmatch(x) else None,
    "part": _part,
    "remove": _remove,
    "add": _nullable(lambda x, y: x + y),
    "sub": _nullable(lambda x, y: x - y),
    "mul": _nullable(lambda x, y: x * y),
    "max": _nullable(max),
    "min": _nullable(min),
    "mod": _nullable(lambda x, y: x % y),
    "eq": lambda x, y: x == y,
    "lt": _compare(lambda x, y: x < y),
    "le": _compare(lambda x, y: x <= y),
    "gt": _compare(lambda x, y: x > y),
    "ge": _compare(lambda x, y: x >= y),
    "starts": lambda x, y: x is not None and x.startswith(y),
    "contains": lambda x, y: x is not None and y in x,
    "is_null": lambda x: x is None,
    "not": lambda x: not x,
    "inner_key": lambda x: None if x is None else x.key,
    "window_start": lambda x: None if x is None else x.start,
    "window_end": lambda x: None if x is None else x.end,
}

_STRINGS = {"str", "concat", "upper", "lower", "part", "remove"}
_BOOLEANS = {"eq", "lt", "le", "gt", "ge", "starts", "contains", "is_null", "not", "and", "or"}


def result_type(expression: Any, env: dict[str, str]) -> str:
    """The result type of an expression: string, long or boolean."""
    if isinstance(expression, str):
        return env.get(expression, "string")
    if isinstance(expression, int):
        return "long"
    name, *args = expression
    if name == "lit":
        literal = args[0]
        return "boolean" if isinstance(literal, bool) else "long" if isinstance(literal, int) else "string"
    if name == "null":
        return str(args[0])
    if name in _STRINGS:
        return "string"
    if name in _BOOLEANS:
        return "boolean"
    if name == "if":
        fails = isinstance(args[1], list) and args[1][0] == "fail"
        return result_type(args[2] if fails else args[1], env)
    if name == "coalesce":
        return result_type(args[0], env)
    if name == "inner_key":
        return result_type(args[0], env).removeprefix("windowed ")
    if name == "fail":
        return "string"
    return "long"
