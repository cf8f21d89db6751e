"""Suppliers of ``process``: classes and functions that return processors, and common mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, FixedKeyProcessor, Processor, Record, TestDriver, TopologyError
from millstream.errors import MillstreamError


class Pass(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


both = pytest.mark.parametrize("method", ["process", "process_values"])


@both
def test_an_instance_instead_of_the_class_is_refused(method: str) -> None:
    with pytest.raises(
        TopologyError, match=rf"{method}: expected a processor class .*\n  hint: pass the class, not an instance"
    ):
        getattr(App("processors").stream("in"), method)(Pass())


@both
@pytest.mark.parametrize("supplier", [None, "Pass", 5])
def test_an_object_that_is_not_callable_is_refused(method: str, supplier: Any) -> None:
    with pytest.raises(TopologyError, match="expected a processor class or a function that returns a processor"):
        getattr(App("processors").stream("in"), method)(supplier)


@both
@pytest.mark.parametrize("product", [None, object(), "text"])
def test_an_object_without_process_is_refused_when_the_application_starts(method: str, product: Any) -> None:
    app = App("processors")
    getattr(app.stream("in"), method)(lambda: product, name="own")
    with pytest.raises(MillstreamError, match=r"'own': test_suppliers.py:\d+ in <lambda> returned .* process\(\)"):
        TestDriver(app)


def test_a_function_of_a_record_instead_of_a_processor_is_refused_with_a_hint() -> None:
    def started() -> None:
        app = App("processors")
        app.stream("in").process(lambda record: record)  # type: ignore[arg-type,misc]
        TestDriver(app)

    with pytest.raises(MillstreamError, match=r"function|argument|processor"):
        started()


def test_a_supplier_that_returns_the_same_processor_twice_is_refused() -> None:
    shared = Pass()
    app = App("processors")
    app.stream("in").process(lambda: shared).to("out")
    with pytest.raises(MillstreamError, match="own"):
        TestDriver(app, partitions=2)


def test_a_processor_that_does_not_override_process_fails_at_the_first_record() -> None:
    class Empty(FixedKeyProcessor[Any, Any, Any]): ...

    app = App("processors")
    app.stream("in").process_values(Empty, name="empty")
    with TestDriver(app) as driver, pytest.raises(MillstreamError, match=r"'empty'.*NotImplementedError"):
        driver.input("in").pipe("x")


def test_an_error_in_the_supplier_names_the_operator() -> None:
    class Broken(Pass):
        def __init__(self) -> None:
            raise ValueError("no such file")

    app = App("processors")
    app.stream("in").process(Broken, name="broken")
    with pytest.raises(MillstreamError, match=r"'broken'.*no such file"):
        TestDriver(app)
