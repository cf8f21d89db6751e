"""Statistics of trades: every second those of the last five, and the ten tickers that were traded most on each day.

The first part is an aggregate in hopping windows. A trade is in five of them. Each window comes out once, when it has
closed, two seconds after its end, so that trades which are a little late are still in it.

The second part is an aggregate of an aggregate. Volumes of ticker and day make a table; its rows are grouped anew, by
day. When the volume of a ticker changes, the old one is subtracted from its day and the new one is added. All volumes
of a day must be kept to do so, and the top ten are taken from them at the end.
"""

from __future__ import annotations

import heapq
from datetime import UTC, datetime
from typing import Any

from millstream import App, Windowed, col, hopping, tumbling

Trade = dict[str, Any]
Statistics = dict[str, Any]
Volumes = dict[str, int]

TOP = 10


def nothing_traded() -> Statistics:
    return {"trades": 0, "lowest_ask": None, "lowest": None, "highest": None, "total": 0.0}


def with_trade(trade: Trade, statistics: Statistics) -> Statistics:
    """The statistics with one trade more."""
    price = trade["price"]
    return {
        "trades": statistics["trades"] + 1,
        "lowest_ask": least(statistics["lowest_ask"], trade["ask"]),
        "lowest": least(statistics["lowest"], price),
        "highest": price if statistics["highest"] is None else max(statistics["highest"], price),
        "total": statistics["total"] + price,
    }


def least(known: float | None, new: float) -> float:
    return new if known is None else min(known, new)


def summary(window: Windowed[str], statistics: Statistics) -> Statistics:
    """What goes to the topic: when the window began, and the average in place of the sum."""
    shown = {name: figure for name, figure in statistics.items() if name != "total"}
    return {"from": window.start, **shown, "average": round(statistics["total"] / statistics["trades"], 4)}


def by_day(window: Windowed[str], volume: int) -> tuple[str, list[Any]]:
    """A day, as the key, and the volume of a ticker on it."""
    day = datetime.fromtimestamp(window.start / 1000, UTC).date().isoformat()
    return day, [window.key, volume]


def add(row: list[Any], volumes: Volumes) -> Volumes:
    ticker, volume = row
    return {**volumes, ticker: volumes.get(ticker, 0) + volume}


def subtract(row: list[Any], volumes: Volumes) -> Volumes:
    ticker, volume = row
    return {**volumes, ticker: volumes[ticker] - volume}


def ranking(volumes: Volumes) -> list[list[Any]]:
    """The tickers with the greatest volumes, of equal ones the first in the alphabet."""
    best = heapq.nsmallest(TOP, volumes.items(), key=lambda row: (-row[1], row[0]))
    return [list(row) for row in best]


app = App("stock-statistics")
trades = app.stream("trades").filter(col("price").is_not_null() & col("size").is_not_null()).group_by_key()

windows = trades.windowed_by(hopping("5s", "1s", grace="2s"), emit="close")
statistics = windows.aggregate(nothing_traded, with_trade, store="statistics")
statistics.map_values(summary).to_stream(lambda window, _: window.key, key_serde=str).to("trade-statistics")

volumes = trades.windowed_by(tumbling("1d", grace="1h")).sum(col("size"), value=int, store="volumes")
days = volumes.group_by(by_day, key=str).aggregate(dict, add, subtract, store="days")
days.map_values(ranking, store="top-ten").to_stream().to("daily-top-ten")

if __name__ == "__main__":
    app.run()
