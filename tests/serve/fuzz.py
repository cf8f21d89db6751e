"""Sends generated requests to a server over a running application, by the OpenAPI description of its routes.

    python -m tests.serve.fuzz --requests 20000

No answer may have a status that the description does not name, other content than it describes, or a traceback. The
only permitted status of the server's own failures is 503.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
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

_TIMEOUT = 30.0
_STREAM_TIMEOUT = 1.0


@dataclass
class Findings:
    """What the answers were.

    Attributes:
        sent: The number of requests.
        statuses: The number of answers by status.
        failures: Descriptions of wrong answers, by operation and what is wrong.
    """

    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)


def fuzz(client: Client, count: int, start: int) -> Findings:
    """Sends requests for all operations of a server.

    Args:
        client: A client with a token.
        count: About how many.
        start: The seed of the generator.
    """
    findings = Findings()
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    operations: list[APIOperation] = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    each = max(1, count // (len(operations) * len(modes)))
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {client.token}"
        for operation in operations:
            for mode in modes:
                _send(operation, mode, each, start, session, f"http://{client.host}:{client.port}", findings)
    return findings


def _send(
    operation: APIOperation, mode: GenerationMode, count: int, start: int, session: Any, url: str, findings: Findings
) -> None:
    chance = random.Random(start)

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
        if mode is GenerationMode.POSITIVE and chance.random() < 0.5:
            for name in case.path_parameters or ():
                if name in NAMES:
                    case.path_parameters[name] = NAMES[name]
        _check(operation, case, session, url, findings)

    try:
        send()
    except (schemathesis.errors.SchemathesisError, Unsatisfiable) as error:
        if mode is GenerationMode.POSITIVE:  # some operations have no wrong requests, such as those without parameters
            findings.failures[operation.label, "generation"] = str(error)


def _check(operation: APIOperation, case: Case, session: Any, url: str, findings: Findings) -> None:
    findings.sent += 1
    is_stream = any(kind in str(operation.definition.raw) for kind in STREAMS)
    try:
        response = case.call(url, session=session, timeout=_STREAM_TIMEOUT if is_stream else _TIMEOUT)
    except requests.exceptions.Timeout as error:
        if not is_stream:
            findings.failures[operation.label, "timeout"] = f"{case.as_curl_command()}\n{error}"
        return
    except (requests.exceptions.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
        if not is_stream:
            findings.failures[operation.label, "connection"] = f"{case.as_curl_command()}\n{error}"
        return
    findings.statuses[response.status_code] += 1
    body = response.content or b""
    if b"Traceback (most recent call last)" in body or (response.status_code >= 500 and response.status_code != 503):
        findings.failures[operation.label, "server error"] = f"{case.as_curl_command()}\n{body[:1000]!r}"
    for check in CHECKS:
        try:
            case.validate_response(response, checks=[check], excluded_checks=[not_a_server_error])
        except Exception as error:  # noqa: BLE001  (a group of failures)
            findings.failures[operation.label, check.__name__] = f"{case.as_curl_command()}\n{error}"


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
            shop.build(data, report_interval_ms=100).start(mode="local"),
            start_server(data) as server,
        ):
            findings = fuzz(server.client(Role.ADMIN), arguments.requests, arguments.seed)
            is_alive = server.anonymous().get("/healthz").status == 200
            printed = server.text()
        seconds = time.monotonic() - began
    print(f"{findings.sent} requests in {seconds:.0f} s, seed {arguments.seed}")
    print("answers by status:", dict(sorted(findings.statuses.items())))
    for (label, what), text in findings.failures.items():
        print(f"\n--- {label}: {what}\n{text}")
    if "Traceback" in printed:
        print(f"\n--- the server printed\n{printed[:5000]}")
    return int(bool(findings.failures) or "Traceback" in printed or not is_alive)


if __name__ == "__main__":
    sys.exit(main())
