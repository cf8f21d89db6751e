"""Frozen classes with slots that cost little to import.

``dataclass`` writes and compiles source for every class, about half a millisecond each; with a dozen of them that is
most of what importing expressions would cost. These classes share their methods instead.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, dataclass_transform


class _FrozenMeta(type):
    """Makes slots of the annotated fields, and keeps their defaults apart, which slots cannot hold."""

    def __new__(meta, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _FrozenMeta:
        fields = tuple(f for f in namespace.get("__annotations__", ()) if not f.startswith("_"))
        namespace["_defaults"] = {f: namespace.pop(f) for f in fields if f in namespace}
        namespace["_fields"] = fields
        namespace["__slots__"] = fields
        return super().__new__(meta, name, bases, namespace)


@dataclass_transform(frozen_default=True, eq_default=False)
class Frozen(metaclass=_FrozenMeta):
    """The base of classes whose fields are their annotations, as in a frozen dataclass.

    Fields are given by position or name when an object is made, and never change; ``__post_init__`` may check them.

    >>> class Point(Frozen):
    ...     x: int
    ...     y: int = 0
    >>> Point(3)
    Point(x=3, y=0)
    """

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(args) > len(self._fields):
            raise TypeError(f"{type(self).__name__} has {len(self._fields)} fields, not {len(args)}")
        given = dict(zip(self._fields, args, strict=False))
        if (both := given.keys() & kwargs) or (unknown := kwargs.keys() - set(self._fields)):
            raise TypeError(f"{type(self).__name__}: {', '.join(both or unknown)} is given twice or not a field")
        values = {**self._defaults, **given, **kwargs}
        for field in self._fields:
            if field not in values:
                raise TypeError(f"{type(self).__name__} needs its field {field}")
            object.__setattr__(self, field, values[field])
        self.__post_init__()

    def __post_init__(self) -> None:
        """Checks the fields; there is nothing to check here."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field) for field in self._fields)

    def __repr__(self) -> str:
        fields = ", ".join(f"{field}={getattr(self, field)!r}" for field in self._fields)
        return f"{type(self).__name__}({fields})"
