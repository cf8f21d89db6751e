"""Tells functions that only begin when they are awaited, which nothing here does."""

from __future__ import annotations

import functools

ASYNC_HINT = (
    "operators call functions and use what they return; nothing awaits it. Write a plain def, and in it "
    "asyncio.run(…) or, better, a client that is not asynchronous"
)


def is_async(target: object) -> bool:
    """Whether calling something gives a coroutine or an asynchronous generator instead of a result.

    >>> async def fetch(value): ...
    >>> is_async(fetch), is_async(lambda value: value)
    (True, False)
    """
    import inspect  # noqa: PLC0415  (only a topology that is built needs it)

    while isinstance(target, functools.partial):
        target = target.func
    if inspect.isclass(target):
        return False
    calls = (target, getattr(type(target), "__call__", None))  # noqa: B004  (it is the function that is looked at)
    return any(inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call) for call in calls)


def async_method(target: object, names: tuple[str, ...]) -> str | None:
    """Returns the first of some methods of a class or an object that is asynchronous, if any is."""
    while isinstance(target, functools.partial):
        target = target.func
    return next((name for name in names if is_async(getattr(target, name, None))), None)
