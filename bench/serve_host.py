"""The server of bench_serve.py: that of Millstream, with one more route, which reads the same row from Redis.

The route has the same access control. It speaks the protocol of Redis (RESP) over connections that it keeps.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Response

from millstream.serve import __main__ as server, web
from millstream.serve.access.authorization import require
from millstream.serve.access.roles import Principal, Role

Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

router = APIRouter()
idle: list[Connection] = []


@router.get("/bench/redis/{key}")
async def redis(key: str, _principal: Viewer) -> Response:
    connection = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    reader, writer = connection
    data = key.encode()
    writer.write(b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(data), data))
    size = int((await reader.readline())[1:])
    if size < 0:
        idle.append(connection)
        raise HTTPException(404, "there is no such key")
    body = (await reader.readexactly(size + 2))[:-2]
    idle.append(connection)
    return Response(body, media_type="application/json")


if __name__ == "__main__":
    web.ROUTERS = (*web.ROUTERS, router)  # type: ignore[assignment]
    sys.exit(server.main())
