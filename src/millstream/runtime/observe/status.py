"""The status of a running application on the terminal: a live line, lines of text or JSON lines, and user output."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from millstream.errors import MillstreamError
from millstream.runtime.lifecycle import State
from millstream.runtime.messages import TaskResult
from millstream.runtime.observe.metrics import Metrics
from millstream.text.escaping import printable, readable
from millstream.text.sizes import show_bytes

if TYPE_CHECKING:
    from rich.live import Live

_JSON_EVERY = 1.0
_TEXT_EVERY = 30.0
_RESTORING_EVERY = 5.0
_CHOOSE = f"(figures every {_TEXT_EVERY:g} s at most; status=json has them each second, status=none not at all)"
_PROBLEMS_ONLY = {"line", "plain"}
"""The forms that print problems as plain text, without states and metrics."""


class Status:
    """Prints states and metrics to stderr, and the output of user code to stdout."""

    def __init__(self, application: str, form: str, metrics: Metrics) -> None:
        self.name = application
        self._metrics = metrics
        self._form = _automatic() if form == "auto" else form
        self._printed = -math.inf
        self._has_news = False
        self._moved = 0
        self._state = State.CREATED
        self._since = time.monotonic()
        self._waiting: tuple[str, float] | None = None
        self._trouble: str | None = None
        self.error: MillstreamError | None = None
        """The error that ended the application."""

    def __enter__(self) -> Self:
        if self._form == "line":
            _board.add(self)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._form == "line":
            _board.remove(self)

    def state_changed(self, state: State, _before: State) -> None:
        """Prints the new state."""
        self._state, self._since = state, time.monotonic()
        if self._form == "json":
            failed = {} if self.error is None else {"error": self.error.message, "code": self.error.code}
            self._json({"state": state.value, **(self._metrics.read() if state.is_over else {}), **failed})
        elif self._form == "text" and state is not State.PENDING_ERROR:
            self._text(f"{state.value}{self._details(state)}")

    def _details(self, state: State) -> str:
        """The text after the name of a state."""
        if state is State.STARTING:
            return f"  {_CHOOSE}"
        if state is State.ERROR and self.error is not None:
            return f"  {self.error.message}"
        if not state.is_over:
            return ""
        if self._metrics.has_connectors_only:
            return self._connectors()
        figures = self._metrics.read()
        read = sum(source["read"] for source in figures["sources"].values())
        written = sum(figures["sinks"].values())
        counts = f"{_plural(self._metrics.unit)} {figures['batches']}  read {read}  written {written}"
        return f"  {counts}  dropped {self._metrics.dropped}{self._quarantined()}{self._restarts()}"

    def failed(self, error: MillstreamError, pause: float) -> None:
        """Prints why the application restarts."""
        if self._form == "json":
            self._json({"error": error.message, "code": error.code, "restart_in_seconds": pause})
        elif self._form == "text":
            self._text(f"{error.message}\n  starting again in {pause:g} s")
        elif self._form in _PROBLEMS_ONLY:
            _board.print(f"{self.name}: {error.message}\n  starting again in {pause:g} s", error=True)

    def retrying(self, what: str) -> None:
        """Prints which work failed and is run again."""
        if self._form == "json":
            self._json({"retry": what})
        elif self._form == "text":
            self._text(what)
        elif self._form in _PROBLEMS_ONLY:
            _board.print(f"{self.name}: {what}", error=True)

    def lost(self, stores: list[str]) -> None:
        """Prints the stores that the topology does not have any more: their rows are lost."""
        message = f"the topology has these stores no more, what is in them is lost: {', '.join(stores)}"
        if self._form == "json":
            self._json({"lost_stores": stores})
        elif self._form == "text":
            self._text(message)
        elif self._form in _PROBLEMS_ONLY:
            _board.print(f"{self.name}: {message}")

    def trouble(self, what: str | None) -> None:
        """Shows the reason why the application is blocked; None once it continues."""
        if what != self._trouble:
            self._trouble = what
            self._since = time.monotonic()
            if self._form == "json":
                self._json({"trouble": what})
            elif self._form == "text":
                self._text(readable(what) if what else "goes on")
            elif self._form == "plain" and what is not None:
                _board.print(f"{self.name}: {what}", error=True)

    @contextlib.contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Shows a step of the start, and how long it has taken."""
        self._waiting = (what, time.monotonic())
        if self._form == "json":
            self._json({"waiting": what})
        elif self._form == "text":
            self._text(what)
        try:
            yield
        finally:
            self._waiting = None

    def batch(self, results: Sequence[TaskResult]) -> None:
        """Prints the user output of a batch, and at intervals the metrics."""
        self.printed([line for result in results for line in result.printed])
        self._has_news = True
        self.refresh()

    def refresh(self) -> None:
        """Prints the metrics if they have changed and it is time: also those of the last batch before a quiet time."""
        now, every = time.monotonic(), {"json": _JSON_EVERY, "text": _TEXT_EVERY}.get(self._form)
        moved = sum(facts["records"] for facts in self._metrics.connectors().values()) if every is not None else 0
        self._has_news, self._moved = self._has_news or moved != self._moved, moved
        if every is None or not self._has_news or now - self._printed < every:
            return
        self._has_news = False
        self._printed = now
        if self._form == "json":
            self._json({"state": self._state.value, **self._metrics.read()})
        elif self._metrics.has_connectors_only:
            self._text(self._connectors().strip())
        else:
            self._text(self._figures())

    def restoring(self) -> None:
        """Prints at intervals how far the restoration of stores is, if it takes long."""
        now = time.monotonic()
        every = {"json": _JSON_EVERY, "text": _RESTORING_EVERY}.get(self._form, math.inf)
        if self._metrics.restoring and now - max(self._printed, self._since) >= every:
            self._printed = now
            if self._form == "json":
                self._json({"state": self._state.value, "restoring": self._metrics.restoring})
            else:
                self._text(self._metrics.restoring)

    def printed(self, lines: Sequence[str]) -> None:
        """Prints the output of user code."""
        for line in lines:
            if self._form == "line":
                _board.print(line)
            else:
                print(line, flush=True)  # noqa: T201  (the output of user code)

    def line(self) -> str:
        """The live line."""
        if self._state is State.PENDING_SHUTDOWN and (self._waiting is not None or not self._metrics.batches):
            return f"{self.name}  stopping … {time.monotonic() - self._since:.0f} s"
        if self._waiting is not None:
            what, since = self._waiting
            return f"{self.name}  {what} … {time.monotonic() - since:.0f} s"
        if self._trouble is not None:
            return f"{self.name}  {printable(self._trouble)} … {time.monotonic() - self._since:.0f} s"
        if not self._metrics.batches:
            if self._metrics.has_connectors_only:
                return f"{self.name}  {self._state.value}{self._connectors()}"
            step = self._metrics.restoring or f"the first {self._metrics.unit}"
            return f"{self.name}  {self._state.value}  {step} … {time.monotonic() - self._since:.0f} s"
        state = "" if self._state is State.RUNNING else f"{self._state.value}  "
        restoring = f"  {self._metrics.restoring}" if self._metrics.restoring else ""
        return f"{self.name}  {state}{self._figures()}{restoring}"

    def _figures(self) -> str:
        rate_in, rate_out = self._metrics.rates()
        try:
            lag = sum(self._metrics.lag().values())
        except MillstreamError:
            lag = 0
        return (
            f"in {_short(rate_in)}/s  out {_short(rate_out)}/s  lag {_short(lag)}  "
            f"{self._metrics.unit} {self._metrics.unit_seconds * 1000:.0f} ms  "
            f"state {show_bytes(self._metrics.state_bytes)}  dropped {_short(self._metrics.dropped)}"
            f"{self._quarantined()}{self._restarts()}{self._connectors()}"
        )

    def _connectors(self) -> str:
        """The name, the state and the number of records of each connector, and the progress of long steps."""
        shown = ""
        for name, facts in self._metrics.connectors().items():
            progress = "; ".join(task["progress"] for task in facts["tasks"] if task["progress"])
            shown += f"  {name} {facts['state']} {_short(facts['records'])}{f' ({progress})' if progress else ''}"
        return shown

    def _quarantined(self) -> str:
        return f"  quarantined {_short(self._metrics.quarantined)}" if self._metrics.quarantined else ""

    def _restarts(self) -> str:
        return f"  restarts {self._metrics.restarts}" if self._metrics.restarts else ""

    def _text(self, text: str) -> None:
        moment = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        print(f"{moment} {self.name}  {text}", file=sys.stderr, flush=True)  # noqa: T201

    def _json(self, figures: dict[str, Any]) -> None:
        text = json.dumps({"application": self.name, "time": int(time.time() * 1000), **figures})
        print(text, file=sys.stderr, flush=True)  # noqa: T201


def _automatic() -> str:
    """The form of the status if the setting is ``auto``.

    A notebook keeps everything that is written to it, so only problems are printed; the handle shows the metrics.
    """
    if _is_notebook():
        return "plain"
    return "line" if sys.stderr.isatty() else "text"


def _is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


class _Board:
    """The live lines of all applications of this process, at the bottom of the terminal."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._shown: list[Status] = []
        self._live: Live | None = None

    def add(self, status: Status) -> None:
        from rich.console import Console  # noqa: PLC0415  (only a terminal needs it)
        from rich.live import Live  # noqa: PLC0415

        with self._lock:
            self._shown.append(status)
            if self._live is None:
                console = Console(file=sys.stderr, highlight=False)
                self._live = Live(get_renderable=self._text, console=console, refresh_per_second=4, transient=True)
                self._live.start()

    def remove(self, status: Status) -> None:
        with self._lock:
            self._shown.remove(status)
            if not self._shown and self._live is not None:
                self._live.stop()
                self._live = None

    def print(self, text: str, *, error: bool = False) -> None:
        live = self._live
        if live is None:
            print(text, file=sys.stderr if error else sys.stdout, flush=True)
        else:
            live.console.print(text, markup=False, soft_wrap=True, style="red" if error else None)

    def _text(self) -> Any:
        from rich.text import Text  # noqa: PLC0415

        return Text("\n".join(status.line() for status in list(self._shown)), no_wrap=True, overflow="ellipsis")


_board = _Board()


def _plural(unit: str) -> str:
    return "batches" if unit == "batch" else f"{unit}s"


def _short(number: float) -> str:
    """A number in few characters.

    >>> _short(7), _short(1234), _short(45_600_000)
    ('7', '1.2k', '46M')
    """
    for unit in ("", "k", "M"):
        if number < 999.5:
            return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"
        number /= 1000
    return f"{number:.1f}G"
