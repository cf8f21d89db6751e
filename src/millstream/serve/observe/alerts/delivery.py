"""Delivers alerts: to the log of the server, to a webhook, or to a topic. A slow target holds up nothing."""

from __future__ import annotations

import json
import queue
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Protocol

from millstream.errors import LogError, MillstreamError
from millstream.log import Log, ProducerRecord
from millstream.serve.observe.alerts.configuration import Webhook
from millstream.text.escaping import printable

_MOST_WAITING = 1000
_ATTEMPTS = 10
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_READ_BYTES = 1024

Event = dict[str, Any]


class NotDeliveredError(MillstreamError):
    """An alert could not be delivered."""

    code = "alert-not-delivered"

    def __init__(self, message: str, *, may_pass: bool) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class Target(Protocol):
    """A target of alerts."""

    @property
    def name(self) -> str:
        """Its name in messages, without secrets."""
        ...

    def send(self, event: Event) -> None:
        """Sends an event.

        Raises:
            NotDeliveredError: It was not taken.
        """
        ...


class WebhookTarget:
    """Posts events as JSON. It follows no redirection, because the headers are meant for the configured host only."""

    def __init__(self, webhook: Webhook) -> None:
        self._webhook = webhook
        self._opener = urllib.request.build_opener(_NoRedirection)

    @property
    def name(self) -> str:
        """The host."""
        return f"webhook at {self._webhook.name}"

    def send(self, event: Event) -> None:
        """Sends an event."""
        headers = {"Content-Type": "application/json", "User-Agent": "millstream", **self._webhook.headers}
        body = json.dumps(event).encode()
        request = urllib.request.Request(self._webhook.url, body, headers, method="POST")  # noqa: S310  (checked)
        try:
            with self._opener.open(request, timeout=self._webhook.seconds) as answer:
                answer.read(_READ_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                may_pass = error.code >= 500 or error.code in {
                    HTTPStatus.REQUEST_TIMEOUT,
                    HTTPStatus.TOO_MANY_REQUESTS,
                }
                raise NotDeliveredError(f"it answers {error.code}", may_pass=may_pass) from None
        except (OSError, ValueError, HTTPException) as error:  # their texts may contain the address
            reason = getattr(error, "reason", error)
            text = reason.strerror if isinstance(reason, OSError) and reason.strerror else type(reason).__name__
            raise NotDeliveredError(text, may_pass=True) from None


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        """Refuses: the redirection is an error."""


class TopicTarget:
    """Writes events to a topic as JSON, with the application as the key.

    Args:
        topic: The topic. It is created if it does not exist.
        log: Returns the log.
    """

    def __init__(self, topic: str, log: Callable[[], Log]) -> None:
        self._topic = topic
        self._log = log
        self._exists = False

    @property
    def name(self) -> str:
        """The name of the topic."""
        return f"topic {self._topic}"

    def send(self, event: Event) -> None:
        """Writes an event."""
        try:
            log = self._log()
            if not self._exists:
                log.create_topic(self._topic, exist_ok=True)
                self._exists = True
            key, value = event["application"].encode(), json.dumps(event).encode()
            log.produce(self._topic, [ProducerRecord(key, value, event["time"])])
        except MillstreamError as error:
            raise NotDeliveredError(error.message, may_pass=isinstance(error, LogError)) from None


class Deliveries:
    """Delivers events to targets, each in a thread of its own, in order.

    Args:
        targets: The targets.
        prints: Each event is printed to stderr, too.
        first_pause: The seconds before the first repetition. Each further one takes twice as long.
    """

    def __init__(self, targets: Sequence[Target], *, prints: bool, first_pause: float = _FIRST_PAUSE) -> None:
        self._prints = prints
        self._first_pause = first_pause
        self._stopping = threading.Event()
        self._queues: list[queue.Queue[tuple[Event, Callable[[], None]] | None]] = []
        for target in targets:
            waiting: queue.Queue[tuple[Event, Callable[[], None]] | None] = queue.Queue(_MOST_WAITING)
            self._queues.append(waiting)
            thread = threading.Thread(target=self._deliver, args=(target, waiting), name=f"alerts: {target.name}")
            thread.daemon = True
            thread.start()

    def deliver(self, event: Event, done: Callable[[], None]) -> None:
        """Delivers an event.

        Args:
            event: The event.
            done: Called once each target has taken the event, or has refused it for good. From any thread.
        """
        if self._prints:
            _print(f"alert {event['status']}: {event['application']}: {event['rule']}: {event['message']}")
        left, lock = len(self._queues), threading.Lock()

        def taken() -> None:
            nonlocal left
            with lock:
                left -= 1
                is_last = left <= 0
            if is_last:
                done()

        if not self._queues:
            done()
        for waiting in self._queues:
            try:
                waiting.put_nowait((event, taken))
            except queue.Full:
                _print("alerts: too many alerts wait for delivery, this one is only printed")
                taken()

    def _deliver(self, target: Target, waiting: queue.Queue[tuple[Event, Callable[[], None]] | None]) -> None:
        while (item := waiting.get()) is not None:
            event, taken = item
            if self._send(target, event):
                taken()
            if self._stopping.is_set():
                return

    def _send(self, target: Target, event: Event) -> bool:
        """Sends an event, again and again; returns False if the server stops before it is taken or given up."""
        for attempt in range(_ATTEMPTS):
            try:
                target.send(event)
                return True
            except NotDeliveredError as error:
                if not error.may_pass or attempt == _ATTEMPTS - 1:
                    _print(f"alert {event['rule']!r} was not delivered to the {target.name}: {error.message}")
                    return True
            if self._stopping.wait(min(_LONGEST_PAUSE, self._first_pause * 2**attempt)):
                return False
        return True

    def close(self) -> None:
        """Ends the deliveries. What was not delivered is delivered by the next server."""
        self._stopping.set()
        for waiting in self._queues:
            try:
                waiting.put_nowait(None)
            except queue.Full:
                pass


def _print(text: str) -> None:
    print(f"millstream: {printable(text)}", file=sys.stderr, flush=True)  # noqa: T201  (the log of the server)
