"""Limits of queries: a query that takes too long is interrupted, and the next one is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fastapi import HTTPException

from millstream.errors import CorruptViewError
from millstream.serve.data import ServedData
from millstream.serve.options import ServeOptions
from millstream.serve.stores import positions as positions_module, reader as reader_module
from millstream.serve.stores.definitions import Definitions, StoreDefinition
from millstream.serve.stores.positions import Positions
from millstream.serve.stores.reader import StoreReader
from millstream.views.pages import Selection


@pytest.fixture
def served(shop_data: Path) -> ServedData:
    return ServedData(ServeOptions(data=str(shop_data)))


def definition(served: ServedData, name: str) -> StoreDefinition:
    async def read() -> StoreDefinition:
        return await Definitions(served, lambda: NotImplemented).store("shop", name)

    return asyncio.run(read())


@pytest.mark.parametrize("name", ["orders-of-shop", "minutes", "visits", "prices"])
def test_a_query_that_takes_too_long_is_interrupted(
    served: ServedData, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, reader = definition(served, name), StoreReader(served)
    with monkeypatch.context() as patch:
        patch.setattr(reader_module, "_SECONDS", -1.0)
        patch.setattr(reader_module, "_INSTRUCTIONS", 1)
        with pytest.raises(HTTPException) as raised:
            reader.page(store, Selection(), 10, None, 0)
    assert (raised.value.status_code, (raised.value.headers or {})["Retry-After"]) == (503, "1")
    assert "ask for a smaller range" in raised.value.detail
    assert len(reader.page(store, Selection(), 10, None, 0).pages[0].rows) == 2
    served.close()


def test_a_limited_number_of_requests_waits(served: ServedData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions_module, "_MOST", 2)

    async def wait() -> list[object]:
        positions = Positions(served.views)
        waits = [positions.wait("shop", 2**62, 0.2) for _ in range(3)]
        return await asyncio.gather(*waits, return_exceptions=True)

    results = asyncio.run(wait())
    refused = [result for result in results if isinstance(result, HTTPException)]
    assert [(each.status_code, each.headers) for each in refused] == [(503, {"Retry-After": "1"})]
    served.close()


def test_a_row_that_is_missing_in_a_damaged_view_is_an_error(tmp_path: Path) -> None:
    import sqlite3

    from tests.serve import shop

    data = tmp_path / "data"
    shop.run(data)
    connection = sqlite3.connect(data / "log.db")
    connection.execute("DELETE FROM view_rows WHERE key = ?", (b"north",))
    connection.commit()
    connection.close()
    served = ServedData(ServeOptions(data=str(data)))
    store, reader = definition(served, "orders-of-shop"), StoreReader(served)
    assert reader.row_at_once(store, b"north", 0) is None  # only a check of the view tells whether there is a row
    with pytest.raises(CorruptViewError, match="the view of store 'orders-of-shop' is damaged"):
        reader.page(store, Selection(low=b"north", below=b"north\0"), 1, None, 0)
    served.close()
