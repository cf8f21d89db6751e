"""Types that go to other processes take along what the names in their annotations stand for.

Annotations may be strings, looked up in the module of their class when they are first needed. A class of a script goes
to other processes by value, and there its module, ``__main__``, is another one.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import typing
from typing import Any, TypeAlias

Hints: TypeAlias = list[tuple[type, dict[str, Any]]]


def resolve(hint: Any) -> Hints:
    """Returns what the annotations of all classes in a type stand for, where some are strings."""
    found: Hints = []
    waiting, seen = [hint], set()
    while waiting:
        one = waiting.pop()
        waiting += typing.get_args(one)
        if not isinstance(one, type) or one in seen or one.__module__ in sys.builtin_module_names:
            continue
        seen.add(one)
        names = [inspect.get_annotations(base) for base in one.__mro__]
        if not any(names):
            continue
        with contextlib.suppress(Exception):  # whoever uses the type will find out, and say it better
            hints = typing.get_type_hints(one, include_extras=True)
            waiting += hints.values()
            if any(isinstance(value, str) for each in names for value in each.values()):
                found.append((one, hints))
    return found


def settle(hints: Hints) -> None:
    """Puts types in the place of strings in the annotations of classes."""
    for one, types in hints:
        for base in one.__mro__:
            own = inspect.get_annotations(base)
            if any(isinstance(value, str) for value in own.values()):
                base.__annotations__ = {name: types.get(name, value) for name, value in own.items()}
