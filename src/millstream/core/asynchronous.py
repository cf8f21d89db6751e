"""Detects asynchronous functions, which operators cannot call."""

from __future__ import annotations

import functools

ASYNC_HINT = (
    "operators call functions and do not await their results. Write a plain def that uses a synchronous client or "
    "asyncio.run(…)"
)


def is_async(target: object) -> bool:
    """Whether a call returns a coroutine or an asynchronous generator instead of a result.

    >>> async def fetch(value): ...
    >>> is_async(fetch), is_async(lambda value: value)
    (True, False)
    """
    import inspect  # noqa: PLC0415  (needed only while a topology is built)

    while isinstance(target, functools.partial):
        target = target.func
    if inspect.isclass(target):
        return False
    calls = (target, getattr(type(target), "__call__", None))  # noqa: B004  (the function itself is inspected)
    return any(inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call) for call in calls)


def async_method(target: object, names: tuple[str, ...]) -> str | None:
    """Returns the first asynchronous method among the named methods of a class or an object, or None."""
    while isinstance(target, functools.partial):
        target = target.func
    return next((name for name in names if is_async(getattr(target, name, None))), None)
