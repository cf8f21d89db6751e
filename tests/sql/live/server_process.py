"""A server in a process of its own: reads requests from its standard input, and answers each with a line of JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from millstream.errors import MillstreamError
from millstream.sql.live.server import SqlServer
from millstream.sql.requests.properties import RequestSession


def _state(server: SqlServer) -> dict[str, Any]:
    catalog = server.session.catalog
    return {
        "sources": {name: source.schema_text() for name, source in sorted(catalog.sources.items())},
        "types": {name: str(type_) for name, type_ in catalog.types.items()},
        "queries": {
            id_: [query.statement, server.deployment.state(query), server.deployment.problem(query)]
            for id_, query in sorted(catalog.queries.items())
        },
        "problems": server.problems,
    }


def main(directory: Path) -> None:
    with SqlServer({"state.dir": str(directory)}) as server:
        session = RequestSession({"auto.offset.reset": "earliest"})
        for line in sys.stdin:
            try:
                answer: Any = _state(server) if line == "\n" else server.handler.statements(json.loads(line), session)
            except MillstreamError as error:
                answer = {"error": error.message}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
