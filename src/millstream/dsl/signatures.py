"""Types for type checkers: functions that read headers, and aggregations whose result type depends on arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, overload

from millstream.core.records import Headers

if TYPE_CHECKING:
    from millstream.core.records import Windowed
    from millstream.dsl.options import StoreOptions, ValueStoreOptions
    from millstream.dsl.table import Table, WindowedTable
    from millstream.expr import Expr
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

K_contra = TypeVar("K_contra", contravariant=True)
V_contra = TypeVar("V_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class OfValueAndHeaders(Protocol[V_contra, R_co]):
    """A function of the value and the headers."""

    # Type checkers infer the parameter types of lambdas only if the names begin with two underscores.
    def __call__(self, __value: V_contra, headers: Headers) -> R_co:  # noqa: PYI063
        """Calls the function."""


class OfKeyValueAndHeaders(Protocol[K_contra, V_contra, R_co]):
    """A function of key, value and headers."""

    def __call__(self, __key: K_contra, __value: V_contra, headers: Headers) -> R_co:  # noqa: PYI063
        """Calls the function."""


class Picks(Protocol[K, V]):
    """``sum``, ``min``, ``max``, ``first`` and ``last`` of a grouped stream: the result has the type of ``of``."""

    @overload
    def __call__(self, of: None = None, **options: Unpack[StoreOptions]) -> Table[K, V]: ...
    @overload
    def __call__(self, of: Callable[[V], R], **options: Unpack[StoreOptions]) -> Table[K, R]: ...
    @overload
    def __call__(self, of: Callable[[K, V], R], **options: Unpack[StoreOptions]) -> Table[K, R]: ...
    @overload
    def __call__(
        self, of: Callable[..., Any] | Expr | None = None, *, value: type[R] | Serde[R], **options: Unpack[StoreOptions]
    ) -> Table[K, R]: ...
    @overload
    def __call__(self, of: Expr | None = None, **options: Unpack[ValueStoreOptions]) -> Table[K, Any]: ...


class WindowPicks(Protocol[K, V]):
    """The same aggregations of a windowed stream."""

    @overload
    def __call__(self, of: None = None, **options: Unpack[StoreOptions]) -> WindowedTable[Windowed[K], V]: ...
    @overload
    def __call__(self, of: Callable[[V], R], **options: Unpack[StoreOptions]) -> WindowedTable[Windowed[K], R]: ...
    @overload
    def __call__(self, of: Callable[[K, V], R], **options: Unpack[StoreOptions]) -> WindowedTable[Windowed[K], R]: ...
    @overload
    def __call__(
        self, of: Callable[..., Any] | Expr | None = None, *, value: type[R] | Serde[R], **options: Unpack[StoreOptions]
    ) -> WindowedTable[Windowed[K], R]: ...
    @overload
    def __call__(
        self, of: Expr | None = None, **options: Unpack[ValueStoreOptions]
    ) -> WindowedTable[Windowed[K], Any]: ...
