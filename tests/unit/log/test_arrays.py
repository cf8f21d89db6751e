"""Conversions between Arrow and numpy, in a process that has not imported pandas."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

from millstream.log.arrays import from_bytes, to_bytes


@pytest.mark.parametrize("elements", [[], [b"a", b"", b"bcd"], [None, None], [b"a", None, b"", *[b"x"] * 20, None]])
def test_bytes_become_the_array_that_arrow_makes(elements: list[bytes | None], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = pa.array(elements, pa.binary())
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    array = from_bytes(elements)
    array.validate(full=True)
    assert array.equals(expected)
    assert to_bytes(array) == elements
