"""Trade statistics: every second those of the last five seconds, and each day the ten tickers with the largest volume.

The first part aggregates in hopping windows. Each trade is in five windows. A window is emitted once, when it closes:
two seconds after its end, the grace period for late trades.

The second part is an aggregate of an aggregate. Volumes by ticker and day form a table, whose rows are grouped by day.
When the volume of a ticker changes, the old one is subtracted from its day and the new one is added. The aggregate
keeps all volumes of a day, from which the top ten are selected.
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
    """Returns the statistics with a trade added."""
    price = trade["price"]
    return {
        "trades": statistics["trades"] + 1,
        "lowest_ask": least(statistics["lowest_ask"], trade["ask"]),
        "lowest": least(statistics["lowest"], price),
        "highest": price if statistics["highest"] is None else max(statistics["highest"], price),
        "total": statistics["total"] + price,
    }


def least(current: float | None, new: float) -> float:
    return new if current is None else min(current, new)


def summary(window: Windowed[str], statistics: Statistics) -> Statistics:
    """Returns the value for the topic: with the start of the window, and the average instead of the sum."""
    kept = {name: figure for name, figure in statistics.items() if name != "total"}
    return {"from": window.start, **kept, "average": round(statistics["total"] / statistics["trades"], 4)}


def by_day(window: Windowed[str], volume: int) -> tuple[str, list[Any]]:
    """Returns the day as the new key, and the volume of a ticker as the value."""
    day = datetime.fromtimestamp(window.start / 1000, UTC).date().isoformat()
    return day, [window.key, volume]


def add(row: list[Any], volumes: Volumes) -> Volumes:
    ticker, volume = row
    return {**volumes, ticker: volumes.get(ticker, 0) + volume}


def subtract(row: list[Any], volumes: Volumes) -> Volumes:
    ticker, volume = row
    return {**volumes, ticker: volumes[ticker] - volume}


def ranking(volumes: Volumes) -> list[list[Any]]:
    """Returns the tickers with the largest volumes; ties are in alphabetical order."""
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
