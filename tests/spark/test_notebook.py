"""A real notebook: cells define an application, start it, display it and stop it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.dom import minidom

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient

from millstream.log import ProducerRecord, open_log

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

CELLS = [
    """
    from dataclasses import dataclass
    from millstream import App
    from millstream.log import ProducerRecord, open_log

    @dataclass
    class Order:
        product: str
        amount: int

    def product(order: Order) -> str:
        if order.product == "tea":
            print("an order of tea")
        return order.product

    app = App("notebook", config={"state.dir": DIRECTORY})
    orders = app.stream("orders", value=Order)
    totals = orders.group_by(product, key=str).aggregate(
        lambda: 0, lambda order, total: total + order.amount, value=int, store="totals"
    )
    app
    """,
    "totals",
    "handle = app.start()",
    """
    import time

    with open_log(DIRECTORY) as log:
        log.produce("orders", [ProducerRecord(b"2", b'{"product": "tea", "amount": 4}')])
    while sum(source["read"] for source in handle.metrics()["sources"].values()) < 2:
        handle.wait(0.05)
    handle
    """,
    "handle.store('totals')",
    "handle.stop()",
    "handle",
]


def run(cells: list[str], directory: Path) -> list[Any]:
    """Runs cells in a kernel of this Python; returns the outputs of each cell."""
    notebook: Any = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    sources = [f"DIRECTORY = {str(directory)!r}", *cells]
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]  # type: ignore[no-untyped-call]
    client: Any = NotebookClient(
        notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(directory)}}
    )
    client.execute()
    return [cell.outputs for cell in notebook.cells[1:]]


def test_an_application_in_a_notebook(tmp_path: Path) -> None:
    assert KernelSpecManager().get_kernel_spec("python3").argv[0] in {sys.executable, "python"}
    with open_log(tmp_path) as log:
        log.create_topic("orders", 2)
        log.produce("orders", [ProducerRecord(b"1", b'{"product": "milk", "amount": 3}')])
    app, totals, start, running, store, stop, stopped = run(CELLS, tmp_path)
    html = {name: output[-1]["data"]["text/html"] for name, output in locals().items() if name in {"app", "store"}}
    for text in html.values():
        minidom.parseString(text)
    assert "<svg" in html["app"]
    assert totals[-1]["data"]["text/plain"] == "Table(orders-aggregate)"
    assert "&#x27;milk&#x27;" in html["store"]
    assert ">4<" in html["store"]
    assert running[-1]["data"]["text/plain"] == "Handle('notebook', RUNNING)"
    assert stop[-1]["data"]["text/plain"] == "True"
    assert stopped[-1]["data"]["text/plain"] == "Handle('notebook', NOT_RUNNING)"
    written = "".join(
        output["text"] for outputs in (start, running, store, stop) for output in outputs if "text" in output
    )
    assert written == "an order of tea\n"
