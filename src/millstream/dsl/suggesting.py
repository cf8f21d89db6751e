"""Refused calls: misspelt options get a suggestion, and the topology is rolled back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, TypeVar

from millstream.dsl.internals import DslObject, internals_of
from millstream.errors import MillstreamError, TopologyError, suggestion
from millstream.text.suggestions import suggesting_attributes

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
_CO_VARKEYWORDS = 0x08  # as in `inspect`, which is slow to import


def suggesting(function: F) -> F:
    """Decorates a function: unknown options are refused with a suggestion, and an error rolls the topology back.

    >>> @suggesting
    ... def tumbling(size, *, grace=0): ...
    >>> tumbling(5, grce=1)
    Traceback (most recent call last):
    millstream.errors.TopologyError: ...: tumbling: unknown option 'grce'
      hint: did you mean 'grace'?
    """
    code = getattr(function, "__wrapped__", function).__code__
    known = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) - {"self"}
    any_option = bool(code.co_flags & _CO_VARKEYWORDS)

    @functools.wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        if not any_option and not options.keys() <= known:
            for option in options:
                if option not in known:
                    hint = suggestion(option, known) or f"it takes: {', '.join(sorted(known))}"
                    raise TopologyError(f"{function.__name__}: unknown option {option!r}", hint=hint)
        if not args or not isinstance(args[0], DslObject):
            return function(*args, **options)
        builder = internals_of(args[0]).builder
        before = builder.snapshot()
        try:
            return function(*args, **options)
        except MillstreamError:
            builder.restore(before)
            raise

    return checked  # type: ignore[return-value]


def check_options(call: str, options: Mapping[str, object], known: type, *others: str) -> None:
    """Refuses options that are not keys of a typed dict."""
    names = (*others, *known.__annotations__)
    for option in options:
        if option not in names:
            hint = suggestion(option, names) or f"it takes: {', '.join(names)}"
            raise TopologyError(f"{call}: unknown option {option!r}", hint=hint)


def suggesting_methods(cls: C) -> C:
    """Decorates all public methods of a class, and adds suggestions for unknown attributes."""
    for name, member in list(vars(cls).items()):
        if isinstance(member, FunctionType) and not name.startswith("_"):
            setattr(cls, name, suggesting(member))
    return suggesting_attributes(cls)
