"""Sends generated requests to a server over a running application, by the OpenAPI description of its routes.

    python -m tests.serve.fuzz --requests 20000

No answer may have a status that the description does not name, other content than it describes, or a traceback. The
only permitted status of the server's own failures is 503. The command exits with 1 after a wrong answer, and if it
could not send as many requests as asked.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.serve import shop
from tests.serve.client import Client
from tests.serve.servers import start_server

from millstream.serve.access.roles import Role

load_all_checks()
CHECKS = [content_type_conformance, response_headers_conformance, response_schema_conformance, status_code_conformance]
STREAMS = ("text/event-stream", "application/vnd.ksqlapi.delimited.v1", "application/x-ndjson")
"""Answers with these content types may go on for ever."""

NAMES = {
    "application": "shop", "topic": "orders", "group": "shop", "partition": 0, "offset": 0, "store": "prices",
    "key": "tea",
}  # fmt: skip
"""Values of parameters that exist: every other request has them, and so reaches more than an error."""

CONTINUES = {"processing_exception_handler": "continue", "deserialization_exception_handler": "continue"}
"""The application drops generated records that it cannot process."""

_TIMEOUT = 30.0
_STREAM_TIMEOUT = 1.0
_VALID = 0.95
"""The share of requests with a valid token. The others have what the generator makes, or no token."""


@dataclass
class Findings:
    """What the answers were.

    Attributes:
        sent: The number of requests.
        statuses: The number of answers by status.
        streams: The number of answers that went on until the client left.
        failures: Descriptions of wrong answers, by operation and what is wrong.
    """

    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    streams: int = 0
    failures: dict[tuple[str, str], str] = field(default_factory=dict)


def fuzz(client: Client, count: int, start: int) -> Findings:
    """Sends requests for all operations of a server.

    Each operation gets the same share of right and of wrong requests. Some have fewer different ones, such as those
    without parameters: the others share the rest.

    Args:
        client: A client with a token.
        count: How many, at least. There are fewer only if no operation has further requests.
        start: The seed of the generator.
    """
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    operations: list[APIOperation] = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    kinds = [(operation, mode) for operation in operations for mode in GenerationMode]
    with requests.Session() as session:
        session.trust_env = False
        sender = _Sender(client, session)
        for turn in itertools.count():
            share = math.ceil((count - sender.findings.sent) / max(1, len(kinds)))
            if share <= 0 or not kinds:
                break
            kinds = [
                (operation, mode) for operation, mode in kinds if sender.send(operation, mode, share, start + turn)
            ]
    return sender.findings


class _Sender:
    """Sends requests in a session, and checks the answers."""

    def __init__(self, client: Client, session: requests.Session) -> None:
        self.findings = Findings()
        self._url = f"http://{client.host}:{client.port}"
        self._token = client.token
        self._session = session

    def send(self, operation: APIOperation, mode: GenerationMode, count: int, start: int) -> bool:
        """Sends requests for one operation; returns whether there were as many different ones as asked."""
        chance, before = random.Random(start), self.findings.sent
        print(f"{before:6} {operation.label} {mode.value}", file=sys.stderr, flush=True)

        @seed(start)
        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Case) -> None:
            # The application runs on: what follows reads what it writes.
            is_end = operation.path.endswith("/stop")
            if mode is GenerationMode.POSITIVE and not is_end and chance.random() < 0.5:
                for name in case.path_parameters or ():
                    if name in NAMES:
                        case.path_parameters[name] = NAMES[name]
            self._session.auth = self._authorize if chance.random() < _VALID else None
            self._check(operation, case)

        try:
            send()
        except (schemathesis.errors.SchemathesisError, Unsatisfiable) as error:
            if mode is GenerationMode.POSITIVE:  # some have no wrong requests, such as those without parameters
                self.findings.failures[operation.label, "generation"] = str(error)
        return self.findings.sent - before >= count

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request

    def _check(self, operation: APIOperation, case: Case) -> None:
        failures = self.findings.failures
        self.findings.sent += 1
        is_stream = any(kind in str(operation.definition.raw) for kind in STREAMS)
        timeout = _STREAM_TIMEOUT if is_stream else _TIMEOUT
        try:
            response = case.call(self._url, session=self._session, timeout=timeout)
        except requests.exceptions.RequestException as error:
            if is_stream and _is_timeout(error):
                self.findings.streams += 1
            else:
                failures[operation.label, "connection"] = f"{case.as_curl_command()[:2000]}\n{error!r}"
            return
        self.findings.statuses[response.status_code] += 1
        body = response.content or b""
        if b"Traceback (most recent call last)" in body or (
            response.status_code >= 500 and response.status_code != 503
        ):
            failures[operation.label, "server error"] = f"{case.as_curl_command()[:2000]}\n{body[:1000]!r}"
        for check in CHECKS:
            try:
                case.validate_response(response, checks=[check], excluded_checks=[not_a_server_error])
            except (Failure, FailureGroup) as error:
                failures[operation.label, check.__name__] = f"{case.as_curl_command()[:2000]}\n{str(error)[:2000]}"


def _is_timeout(error: Exception) -> bool:
    """Whether no byte came in time: before the headers, or (as an error of the connection) between two chunks."""
    return isinstance(error, requests.exceptions.Timeout) or "Read timed out" in str(error)


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description="Send generated requests to a server.")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        shop.create_topics(data)
        shop.write_input(data)
        began = time.monotonic()
        with (
            shop.build(data, report_interval_ms=100, **CONTINUES).start(mode="local"),
            start_server(data) as server,
        ):
            findings = fuzz(server.client(Role.ADMIN), arguments.requests, arguments.seed)
            is_alive = server.anonymous().get("/healthz").status == 200
            printed = server.text()
        seconds = time.monotonic() - began
    print(f"{findings.sent} requests in {seconds:.0f} s, seed {arguments.seed}")
    print("answers by status:", dict(sorted(findings.statuses.items())), "and streams:", findings.streams)
    for (label, what), text in findings.failures.items():
        print(f"\n--- {label}: {what}\n{text}")
    if "Traceback" in printed:
        print(f"\n--- the server printed\n{printed[:5000]}")
    if findings.sent < arguments.requests:
        print(f"\n--- only {findings.sent} of {arguments.requests} requests were generated")
    if not is_alive:
        print("\n--- the server does not answer any more")
    is_right = not findings.failures and "Traceback" not in printed
    return int(not (is_right and is_alive and findings.sent >= arguments.requests))


if __name__ == "__main__":
    sys.exit(main())
