"""The schema of orders evolves twice while one run of the application goes on: the commands of the page."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from examples.schema_evolution.app import Order, app
from tests.examples.loading import ROOT
from tests.examples.test_readmes import blocks

from millstream import TestDriver, avro
from millstream.runtime.in_process.batches import InProcessRun


def run(command: str, code: int = 0) -> str:
    """Runs a command of the page with this Python; returns its output, or its error."""
    program, *arguments = shlex.split(command)
    here = Path(sys.executable).with_name(Path(program).name)
    done = subprocess.run([here, *arguments], capture_output=True, text=True, timeout=50, check=False, cwd=ROOT)
    assert done.returncode == code, done.stderr
    return (done.stderr if code else done.stdout).strip()


@pytest.mark.slow
def test_the_schema_evolves_while_the_application_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MILLSTREAM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path))
    before, (first,), later, wrong, (refused,) = (block.splitlines() for block in blocks("schema_evolution", "sh"))
    shown = blocks("schema_evolution", "text")
    *prepare, start = before
    assert start == ".venv/bin/python examples/schema_evolution/app.py"
    for command in prepare:
        run(command)
    with InProcessRun(app) as running:
        running.run()
        assert run(first) == shown[0]
        *produce, consume = later
        for command in produce:
            run(command)
        running.run()
        assert run(consume) == shown[1]
        produce_wrong, *results = wrong
        run(produce_wrong)
        running.run()
        assert "\n".join(map(run, results)) == shown[2]
        assert "positive amount" in run(".venv/bin/millstream dlq show shop-orders-quarantine 0:0")
        assert run(refused, code=3) == shown[3]
    versions = run(".venv/bin/millstream schemas list shop-orders-value").splitlines()
    assert [line.split()[0] for line in versions] == ["VERSION", "1", "2", "3"]


def test_orders_of_all_versions_are_added_up() -> None:
    with TestDriver(app) as driver:
        for number, value in enumerate(
            ({"id": "o1", "amount": 10}, {"id": "o2", "amount": 2.5, "currency": "USD"}, {"id": "o3", "amount": 1.5}), 1
        ):
            version = avro(ROOT / "examples" / "schema_evolution" / f"order-{number}.avsc")
            complete = {"currency": "EUR", "customer": None, **value}
            driver.input("shop-orders", value=version).pipe(None, complete)
        driver.input("shop-orders").pipe(None, Order("o4", 1.0))
        totals = {currency: (row.orders, row.amount) for currency, row in driver.store("turnover").all()}
    assert totals == {"EUR": (3, 12.5), "USD": (1, 2.5)}


def test_the_page_shows_the_topology() -> None:
    """If it fails, run `make docs`."""
    assert blocks("schema_evolution", "mermaid") == [app.describe("mermaid").strip()]
