"""Types that go to other processes take along what the names in their annotations stand for.

Annotations may be strings, or have strings in them, which are looked up in the module of their class when they are
first needed. A class of a script goes to other processes by value, and there its module, ``__main__``, is another one.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import typing
from typing import Any, TypeAlias

Hints: TypeAlias = list[tuple[type, dict[str, Any]]]
"""Classes with the annotations of their own bodies, in which types are in the place of names."""


def is_pydantic(cls: Any) -> bool:
    """Tells whether pydantic validates a class. It keeps types, not names."""
    return isinstance(cls, type) and hasattr(cls, "__pydantic_validator__")


def resolve(hint: Any) -> Hints:
    """Returns the annotations of all classes in a type, where some have names in them."""
    resolved: Hints = []
    waiting, seen = [hint], set()
    while waiting:
        one = waiting.pop()
        waiting += typing.get_args(one)
        cls = typing.get_origin(one) or one
        if not isinstance(cls, type) or cls in seen or cls.__module__ in sys.builtin_module_names or is_pydantic(cls):
            continue
        seen.add(cls)
        waiting += cls.__mro__[1:]
        annotations = inspect.get_annotations(cls)
        if not annotations:
            continue
        with contextlib.suppress(Exception):  # the decoder will report it, with a better message
            hints = typing.get_type_hints(cls, include_extras=True)
            own = {name: hints[name] for name in annotations}
            waiting += own.values()
            if any(_has_name(annotation) for annotation in annotations.values()):
                resolved.append((cls, own))
    return resolved


def _has_name(annotation: Any) -> bool:
    if isinstance(annotation, (str, typing.ForwardRef)):
        return True
    if typing.get_origin(annotation) is typing.Literal:  # its strings are values
        return False
    if isinstance(annotation, list):  # the parameters of a Callable
        return any(map(_has_name, annotation))
    return any(map(_has_name, typing.get_args(annotation)[: 1 if hasattr(annotation, "__metadata__") else None]))


def settle(hints: Hints) -> None:
    """Puts types in the place of names in the annotations of classes."""
    for cls, types in hints:
        cls.__annotations__ = types
