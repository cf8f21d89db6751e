"""Machine maintenance: one report for each run of a machine, when the run is over.

Readings of a machine at most half a minute apart form a run: a session. Its report must be final, because it may send a
technician to the machine: the session is suppressed until it closes, after a grace period of ten seconds for late
readings. Readings that arrive even later go to a topic of their own.

Windows close when stream time passes them. When all machines are switched off, no records arrive: ``idle`` then
advances stream time by the wall clock, so that the last runs are reported, too.
"""

from __future__ import annotations

from typing import Any

from millstream import App, Windowed, col, session, until_window_closes

Reading = dict[str, Any]
Run = dict[str, Any]

HOT, SHAKING = 90.0, 7.0


def no_readings() -> Run:
    return {"readings": 0, "hottest": None, "vibration": 0.0}


def with_reading(reading: Reading, run: Run) -> Run:
    return {
        "readings": run["readings"] + 1,
        "hottest": reading["temperature"] if run["hottest"] is None else max(run["hottest"], reading["temperature"]),
        "vibration": run["vibration"] + reading["vibration"],
    }


def merged(earlier: Run, later: Run) -> Run:
    hottest = [run["hottest"] for run in (earlier, later) if run["hottest"] is not None]
    return {
        "readings": earlier["readings"] + later["readings"],
        "hottest": max(hottest, default=None),
        "vibration": earlier["vibration"] + later["vibration"],
    }


def report(window: Windowed[str], run: Run) -> Run:
    """Returns the report of a run: its duration, and the average vibration instead of the sum."""
    return {
        "seconds": (window.end - window.start) / 1000,
        "readings": run["readings"],
        "hottest": run["hottest"],
        "vibration": round(run["vibration"] / run["readings"], 2),
    }


app = App("maintenance")
readings = app.stream("readings").filter(col("temperature").is_not_null() & col("vibration").is_not_null())

runs = readings.group_by_key().windowed_by(session("30s", grace="10s", idle="1m"))
live = runs.aggregate(no_readings, with_reading, merged, store="runs")
live.late().to("late-readings")

final = live.suppress(until_window_closes()).map_values(report)
reports = final.to_stream(lambda window, _: window.key, key_serde=str)
reports.to("run-reports")
reports.filter((col("hottest") > HOT) | (col("vibration") > SHAKING)).to("maintenance-due")

if __name__ == "__main__":
    app.run()
