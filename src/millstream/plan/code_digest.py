"""Digests of Python functions, which detect that a function changed, but not the effect on state."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

_DIGITS = 12
_OWN = __name__.partition(".")[0]
_SCALARS = (str, bytes, int, float, complex, bool, type(None))


def code_digest(target: Any) -> str | None:
    """Returns a digest of the code of a Python function; None for functions of Millstream itself.

    It covers the compiled code, default arguments, constants and functions of the same module that the code refers to,
    and the simple values and functions in its closure; for an object, the methods of its class. It does not cover
    comments, line numbers, file names and other modules. Another version of Python returns other digests.
    """
    module = getattr(target, "__module__", None) or getattr(type(target), "__module__", None) or ""
    if module == _OWN or module.startswith(f"{_OWN}."):
        return None
    text = "\x00".join(_parts(target, []))
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGITS]


def _parts(target: Any, seen: list[Any]) -> Iterator[str]:
    """Yields texts that describe an object; an object that was described before is only mentioned."""
    if isinstance(target, _SCALARS):
        yield repr(target)
    elif any(target is other for other in seen):
        yield "again"
    else:
        seen.append(target)
        yield from _described(target, seen)


def _described(target: Any, seen: list[Any]) -> Iterator[str]:
    if isinstance(target, FunctionType):
        yield from _function(target, seen)
    elif isinstance(target, MethodType):
        yield from _parts(target.__func__, seen)
        yield from _parts(target.__self__, seen)
    elif isinstance(target, functools.partial):
        yield from _parts(target.func, seen)
        for value in (*target.args, *(x for pair in sorted(target.keywords.items()) for x in pair)):
            yield from _parts(value, seen)
    elif isinstance(target, tuple | list):
        for value in target:
            yield from _parts(value, seen)
    elif isinstance(target, type):
        yield from _class(target, seen)
    elif isinstance(target, BuiltinFunctionType) or hasattr(target, "__name__"):
        yield f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', target.__name__)}"
    else:
        yield from _parts(type(target), seen)


def _function(function: FunctionType, seen: list[Any]) -> Iterator[str]:
    yield from _code(function.__code__)
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield from _parts(default, seen)
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:  # assigned later
            continue
        yield from _parts(content, seen)
    for name in sorted(_names(function.__code__)):
        value = function.__globals__.get(name)
        own = isinstance(value, FunctionType) and value.__module__ == function.__module__
        if own or (value is not None and isinstance(value, _SCALARS)):
            yield name
            yield from _parts(value, seen)


def _class(cls: type, seen: list[Any]) -> Iterator[str]:
    """Yields the name of a class, and the methods that it defines in its own module."""
    yield cls.__qualname__
    for _, member in sorted(vars(cls).items()):
        inner = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        if isinstance(inner, FunctionType) and inner.__module__ == cls.__module__:
            yield from _parts(inner, seen)


def _code(code: CodeType) -> Iterator[str]:
    """Yields the instructions, constants and names of a function, without line numbers."""
    yield code.co_code.hex()
    yield from code.co_names
    yield str((code.co_argcount, code.co_kwonlyargcount, code.co_flags))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        elif isinstance(constant, frozenset):
            yield from sorted(map(repr, constant))
        else:
            yield repr(constant)


def _names(code: CodeType) -> set[str]:
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)
