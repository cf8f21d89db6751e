"""The channels of applications: reads the reports each second, once for all streams."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from millstream.errors import LogError, MillstreamError
from millstream.serve.data import ServedData
from millstream.serve.live.channels import Channel
from millstream.serve.live.encoding import rest_of
from millstream.serve.live.feeds import Event, Feed
from millstream.serve.observe.reports import Report
from millstream.serve.operations.applications import summary
from millstream.text.escaping import trace_text

_SECONDS = 1.0
_NAMES_EVERY = 5
"""The list of applications is read less often than their reports: it asks the log."""

Content = dict[str, Any]
InThread = Callable[[Callable[[], "list[Content | None]"]], Awaitable["list[Content | None]"]]


class ReportPoller:
    """Reads reports for feeds. It has a task while there are feeds; its methods are called in the event loop.

    Args:
        data: The data of the server.
        in_thread: Calls a function in a thread.
    """

    def __init__(self, data: ServedData, in_thread: InThread) -> None:
        self._data = data
        self._in_thread = in_thread
        self._feeds: dict[Feed, Channel] = {}
        self._sent: dict[Feed, Content] = {}
        self._task: asyncio.Task[None] | None = None
        self._new = asyncio.Event()
        self._rounds = 0
        self._names: list[str] = []
        self._rates: dict[str, _Rates] = {}

    def join(self, feed: Feed, channel: Channel) -> None:
        """Has a feed show an application, or all of them."""
        self._feeds[feed] = channel
        self._new.set()
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._poll())

    def leave(self, feed: Feed) -> None:
        """Ends that, if the feed shows an application."""
        self._feeds.pop(feed, None)
        self._sent.pop(feed, None)

    def close(self) -> None:
        """Ends the task."""
        if self._task is not None:
            self._task.cancel()

    async def _poll(self) -> None:
        while self._feeds:
            self._new.clear()
            shown = dict(self._feeds)
            contents = await self._in_thread(partial(self._contents, list(shown.values())))
            for feed, content in zip(shown, contents, strict=True):
                if content is not None and content != self._sent.get(feed) and feed in self._feeds:
                    self._sent[feed] = content
                    feed.append([Event(feed.end, None, rest_of(content))], feed.end + 1)
            self._rounds += 1
            try:
                async with asyncio.timeout(_SECONDS):
                    await self._new.wait()
            except TimeoutError:
                pass

    def _contents(self, channels: list[Channel]) -> list[Content | None]:
        return [self._content(channel) for channel in channels]

    def _content(self, channel: Channel) -> Content | None:
        """The content of a channel; None if it cannot be read now."""
        try:
            if channel.kind == "application":
                return self._application(channel.name)
            if self._rounds % _NAMES_EVERY == 0:
                with contextlib.suppress(LogError):  # there is none yet, or it does not answer
                    self._names = self._data.applications()
            names = sorted({*self._names, *self._data.reports.applications()})
            return {"applications": [summary(self._data.reports.report(name), name) for name in names]}
        except MillstreamError:
            return None
        except Exception as error:  # noqa: BLE001  (streams would wait for ever for a task that has ended)
            print(f"millstream: event streams: {trace_text(error)}", file=sys.stderr, flush=True)  # noqa: T201
            return None

    def _application(self, name: str) -> Content:
        report = self._data.reports.report(name)
        content = report.content
        metrics = content.get("metrics") or {}
        return {
            **summary(report, name),
            "errors": content.get("errors", []),
            "metrics": metrics,
            "nodes": self._rates.setdefault(name, _Rates()).read(report),
        }


class _Rates:
    """The rates of the operators of an application, from the counts of successive reports."""

    def __init__(self) -> None:
        self._run: str | None = None
        self._time = 0
        self._counts: dict[str, int] = {}
        self._rates: dict[str, float | None] = {}

    def read(self, report: Report) -> dict[str, float | None]:
        """Returns records per second by operator; none before the second report."""
        content = report.content
        if not report.is_live:
            self._run, self._counts = None, {}
            return {}
        if content["run"] != self._run:
            self._run, self._time, self._counts, self._rates = content["run"], 0, {}, {}
        seconds = (content["time"] - self._time) / 1000
        if seconds > 0:
            counts = _counts(content.get("metrics") or {})
            if self._time:
                self._rates = {
                    name: max(0, count - self._counts.get(name, 0)) / seconds for name, count in counts.items()
                }
            self._time, self._counts = content["time"], counts
        return self._rates


def _counts(metrics: Mapping[str, Any]) -> dict[str, int]:
    """The number of records that each operator has received, or else sent, as far as the report has it."""
    counts = {}
    for name, node in (metrics.get("nodes") or metrics.get("operators") or {}).items():
        known = [node[field] for field in ("in", "taken", "out") if node.get(field) is not None]
        if known:
            counts[name] = int(known[0])
    return counts
