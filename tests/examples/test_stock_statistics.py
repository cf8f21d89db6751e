from __future__ import annotations

from typing import Any

from examples.stock_statistics.app import app

from millstream import TestDriver

DAY = 86_400_000


def trade(price: float | None, *, ask: float = 0.0, size: int | None = 1) -> dict[str, Any]:
    return {"price": price, "ask": ask, "size": size}


def test_each_second_has_the_statistics_of_the_preceding_five() -> None:
    with TestDriver(app) as driver:
        trades = driver.input("trades")
        trades.pipe("AK", trade(10.0, ask=10.5), timestamp=10_000)
        trades.pipe("AK", trade(20.0, ask=20.1), timestamp=12_500)
        trades.pipe("AK", trade(12.0, ask=12.2), timestamp=11_000)  # out of order, in time
        assert driver.output("trade-statistics").is_empty
        trades.pipe("BK", trade(1.0), timestamp=20_000)  # closes the windows of all tickers that end by 18 s
        pairs = driver.output("trade-statistics").read_pairs()
    assert {key for key, _ in pairs} == {"AK"}
    assert [statistics["from"] for _, statistics in pairs] == [
        6_000, 7_000, 8_000, 9_000, 10_000, 11_000, 12_000,
    ]  # fmt: skip
    assert pairs[0][1] == {
        "from": 6_000, "trades": 1, "lowest_ask": 10.5, "lowest": 10.0, "highest": 10.0, "average": 10.0,
    }  # fmt: skip
    assert pairs[4][1] == {
        "from": 10_000, "trades": 3, "lowest_ask": 10.5, "lowest": 10.0, "highest": 20.0, "average": 14.0,
    }  # fmt: skip
    assert pairs[6][1] == {
        "from": 12_000, "trades": 1, "lowest_ask": 20.1, "lowest": 20.0, "highest": 20.0, "average": 20.0,
    }  # fmt: skip


def test_a_trade_too_late_for_some_windows_is_in_the_others() -> None:
    with TestDriver(app) as driver:
        trades = driver.input("trades")
        trades.pipe("AK", trade(10.0), timestamp=20_000)  # windows that end by 18 s are closed
        trades.pipe("AK", trade(30.0), timestamp=15_000)
        trades.pipe("AK", trade(10.0), timestamp=40_000)
        counts = [(s["from"], s["trades"]) for s in driver.output("trade-statistics").read_values()]
    assert counts == [
        (14_000, 1), (15_000, 1), (16_000, 1), (17_000, 1), (18_000, 1), (19_000, 1), (20_000, 1),
    ]  # fmt: skip


def test_a_trade_too_late_for_all_windows_is_dropped_and_counted() -> None:
    with TestDriver(app) as driver:
        trades = driver.input("trades")
        trades.pipe("AK", trade(10.0), timestamp=60_000)
        trades.pipe("AK", trade(10.0, size=5), timestamp=50_000)
        assert driver.dropped == {("trades-aggregate", "late"): 5}  # once for each of its windows
        assert driver.output("daily-top-ten").read_table() == {"1970-01-01": [["AK", 6]]}  # the day is still open


def test_trades_without_a_price_or_a_size_do_not_count() -> None:
    with TestDriver(app) as driver:
        driver.input("trades").pipe_pairs([("AK", trade(None)), ("AK", trade(1.0, size=None)), ("AK", None)])
        assert driver.output("daily-top-ten").is_empty


def test_the_top_ten_of_a_day_have_the_largest_volumes() -> None:
    with TestDriver(app) as driver:
        trades = driver.input("trades")
        for number in range(12):
            trades.pipe(f"T{number:02}", trade(1.0, size=100 + number), timestamp=DAY + number)
        top = driver.output("daily-top-ten")
        best = [[f"T{number:02}", 100 + number] for number in range(11, 1, -1)]
        assert top.read_table() == {"1970-01-02": best}
        trades.pipe("T00", trade(1.0, size=11), timestamp=DAY + 1)  # now as many as the first, and before it by name
        assert top.read_table() == {"1970-01-02": [["T00", 111], *best[:9]]}


def test_a_late_trade_counts_for_its_own_day() -> None:
    with TestDriver(app) as driver:
        trades = driver.input("trades")
        trades.pipe("AK", trade(1.0, size=5), timestamp=DAY - 1)
        trades.pipe("AK", trade(1.0, size=7), timestamp=DAY)
        trades.pipe("BK", trade(1.0, size=9), timestamp=DAY - 2)
        top = driver.store("top-ten")
        assert dict(top.all()) == {"1970-01-01": [["BK", 9], ["AK", 5]], "1970-01-02": [["AK", 7]]}
