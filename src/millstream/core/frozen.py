"""Frozen classes with slots that are fast to import.

``dataclass`` generates and compiles source for every class, which takes more than half a millisecond each: with the
sixty or so classes of plan nodes and expressions, a large part of the import time. These classes share their methods.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, TypeVar, dataclass_transform

from millstream.errors import suggestion

F = TypeVar("F", bound="Frozen")


class _FrozenMeta(type):
    """Turns annotated fields into slots, and stores their defaults separately, because slots cannot hold them."""

    def __new__(
        meta, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, kw_only: bool = False
    ) -> _FrozenMeta:
        del kw_only  # for type checkers only: at run time every field can be passed by name
        annotations = namespace.get("__annotations__", {})
        own = tuple(f for f, t in annotations.items() if not f.startswith("_") and not str(t).startswith("ClassVar"))
        defaults = {f: namespace.pop(f) for f in own if f in namespace}
        inherited = [base for base in bases if isinstance(base, _FrozenMeta)]
        namespace["_defaults"] = {**(inherited[0]._defaults if inherited else {}), **defaults}
        namespace["_fields"] = (*(inherited[0]._fields if inherited else ()), *own)
        namespace["__slots__"] = own
        return super().__new__(meta, name, bases, namespace)

    _fields: tuple[str, ...]
    _defaults: dict[str, Any]


@dataclass_transform(frozen_default=True, eq_default=False)
class Frozen(metaclass=_FrozenMeta):
    """The base of classes whose annotations are their fields, as in a frozen dataclass.

    The constructor takes fields by position or name; they never change. ``__post_init__`` may check them. Objects are
    compared by identity; see `Value` for comparison by fields.

    >>> class Point(Frozen):
    ...     x: int
    ...     y: int = 0
    >>> Point(3)
    Point(x=3, y=0)
    >>> replace(Point(3), y=4)
    Point(x=3, y=4)
    """

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(args) > len(self._fields):
            raise TypeError(f"{type(self).__name__} has {len(self._fields)} fields, not {len(args)}")
        positional = dict(zip(self._fields, args, strict=False))
        for field in kwargs:
            if field in positional:
                raise TypeError(f"{type(self).__name__}: {field!r} is passed twice")
            if field not in self._fields:
                hint = suggestion(field, self._fields) or f"it has: {', '.join(self._fields)}"
                raise TypeError(f"{type(self).__name__} has no {field!r}; {hint}")
        values = {**self._defaults, **positional, **kwargs}
        for field in self._fields:
            if field not in values:
                raise TypeError(f"{type(self).__name__} is missing its field {field}")
            object.__setattr__(self, field, values[field])
        self.__post_init__()

    def __post_init__(self) -> None:
        """Checks the fields. Subclasses override it."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field) for field in self._fields)

    def __repr__(self) -> str:
        shown = ", ".join(f"{field}={getattr(self, field)!r}" for field in self._fields)
        return f"{type(self).__name__}({shown})"


class Value(Frozen):
    """The base of frozen classes that are compared by their fields."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in self._fields)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, field) for field in self._fields)))


def replace(item: F, **changes: Any) -> F:
    """Returns a copy of a frozen object with some fields changed."""
    return type(item)(**{**{field: getattr(item, field) for field in item._fields}, **changes})


def fields(item: Frozen) -> tuple[str, ...]:
    """The names of an object's fields."""
    return item._fields


def defaults(item: Frozen) -> dict[str, Any]:
    """The default values of an object's fields."""
    return item._defaults
