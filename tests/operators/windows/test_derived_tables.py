"""Tables derived from a windowed table have its late records."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, TestDriver, WindowedTable, tumbling, until_window_closes


@pytest.mark.parametrize(
    "make",
    [
        lambda windows: windows.avg(),
        lambda windows: windows.count_distinct(),
        lambda windows: windows.count().filter(lambda n: n > 5),
        lambda windows: windows.count().map_values(str, value=str),
        lambda windows: windows.count().suppress(until_window_closes()),
    ],
)
def test_a_derived_table_has_the_late_records_of_the_aggregate(make: Any) -> None:
    app = App("test")
    table = make(app.stream("in", key=str, value=int).group_by_key().windowed_by(tumbling(10)))
    assert isinstance(table, WindowedTable)
    table.late().to("late")
    with TestDriver(app) as driver:
        for time in (5, 25, 6):
            driver.input("in").pipe("k", time, timestamp=time)
        assert driver.output("late").read_values() == [6]


def test_a_record_before_an_unlimited_window_is_counted() -> None:
    from millstream import unlimited

    app = App("test")
    app.stream("in", key=str, value=int).group_by_key().windowed_by(unlimited(10)).count(store="n")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 1, timestamp=9)
        driver.input("in").pipe("k", 1, timestamp=10)
        assert driver.store("n").fetch("k", 10) == 1
        assert driver.dropped == {("in-count", "before the window"): 1}
