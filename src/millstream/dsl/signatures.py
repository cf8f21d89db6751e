"""Types of functions that read the headers of a record, by a parameter of that name."""

from __future__ import annotations

from typing import Protocol, TypeVar

from millstream.records import Headers

K_contra = TypeVar("K_contra", contravariant=True)
V_contra = TypeVar("V_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class OfValueAndHeaders(Protocol[V_contra, R_co]):
    """A function of the value and the headers."""

    # With names that begin so, type checkers find the types of a lambda's parameters.
    def __call__(self, __value: V_contra, headers: Headers) -> R_co:  # noqa: PYI063
        """Returns what the operator uses."""


class OfKeyValueAndHeaders(Protocol[K_contra, V_contra, R_co]):
    """A function of key, value and headers."""

    def __call__(self, __key: K_contra, __value: V_contra, headers: Headers) -> R_co:  # noqa: PYI063
        """Returns what the operator uses."""
