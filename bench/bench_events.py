"""Measures event streams: events per second to many clients of one topic, and the time from a commit to the clients.

    python bench/bench_events.py [--clients N] [--records N] [--rate N] [--seconds N]

A server process serves a data directory. This process writes the records, and reads all streams with one selector, so
that it takes little of the processors. The first case writes all records at once: every client must get each of them,
and none may be told that it has missed some. The second case writes records one by one at a steady rate, and takes the
time from before the write until the last client has got the record.
"""

from __future__ import annotations

import argparse
import os
import resource
import selectors
import socket
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.serve.servers import Server, start_server

from millstream.log import Log, ProducerRecord, open_log

TOPIC = "numbers"
_TICKS = os.sysconf("SC_CLK_TCK")
_MARK = b"\nevent: topic\n"


class Clients:
    """Open streams of one topic.

    Attributes:
        counts: The events of each.
        size: The bytes that all have received.
        missed: How many were told that they have missed events.
    """

    def __init__(self, server: Server, count: int, stack: ExitStack) -> None:
        self._selector = stack.enter_context(selectors.DefaultSelector())
        self.counts: list[int] = [0] * count
        self._rest = [b""] * count
        self.size = 0
        self.missed = 0
        for number in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            request = f"GET /api/v1/events?channel=topic:{TOPIC} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n"
            connection.sendall(request.encode())
            text = b""
            while b"event: subscribed" not in text:
                text += connection.recv(65536)
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ, number)

    def read_until(self, events: int, seconds: float) -> bool:
        """Reads until each client has so many events; returns False if that takes longer."""
        end = time.perf_counter() + seconds
        while min(self.counts) < events:
            if time.perf_counter() > end:
                return False
            for key, _ in self._selector.select(0.1):
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(1 << 18)
                assert data, "the server has ended a stream"
                self.size += len(data)
                self.missed += data.count(b"event: missed")
                text = self._rest[key.data] + data
                self.counts[key.data] += text.count(_MARK)
                # A mark that begins at the end of this part is counted with the next one.
                self._rest[key.data] = text[max(text.rfind(_MARK) + len(_MARK), len(text) - len(_MARK) + 1) :]
        return True


def processor_seconds(pid: int) -> float:
    """The processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory(pid: int) -> int:
    """The resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def burst(server: Server, log: Log, clients: Clients, records: int) -> None:
    """Writes all records at once."""
    first, size = min(clients.counts), clients.size
    before = processor_seconds(server.process.pid)
    started = time.perf_counter()
    log.produce(TOPIC, [ProducerRecord(b"key", b"x" * 100, number) for number in range(records)])
    is_complete = clients.read_until(first + records, 120)
    seconds = time.perf_counter() - started
    spent = processor_seconds(server.process.pid) - before
    delivered = sum(clients.counts) - first * len(clients.counts)
    size = clients.size - size
    print(f"  {records:,} records at once to {len(clients.counts)} clients: {seconds:.2f} s")
    print(f"    events delivered per second      {delivered / seconds:12,.0f}")
    print(f"    records per second               {records / seconds:12,.0f}")
    print(f"    MB per second                    {size / seconds / 1e6:12,.1f}")
    print(f"    server's processor time          {spent:12,.2f} s")
    print(f"    server's memory                  {memory(server.process.pid) / 1e6:12,.0f} MB")
    print(f"    complete: {is_complete}, clients that missed events: {clients.missed}")


def steady(log: Log, server: Server, clients: Clients, rate: int, seconds: float) -> None:
    """Writes records at a steady rate."""
    before = processor_seconds(server.process.pid)
    first = min(clients.counts)
    started = time.perf_counter()
    times = []
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, started + number / rate - time.perf_counter()))
        written = time.perf_counter()
        log.produce(TOPIC, [ProducerRecord(b"key", b"x" * 100, number)])
        assert clients.read_until(first + number + 1, 30)
        times.append((time.perf_counter() - written) * 1000)
    taken = time.perf_counter() - started
    centiles = statistics.quantiles(times, n=100)
    spent = processor_seconds(server.process.pid) - before
    print(f"  {len(times):,} records one by one to {len(clients.counts)} clients, {len(times) / taken:,.0f} per second")
    print(f"    from the write to the last client: p50 {centiles[49]:.1f} ms, p99 {centiles[98]:.1f} ms")
    print(f"    server's processor time          {spent / taken * 100:12,.0f} % of a core")


def main() -> int:
    """Measures and prints."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clients", type=int, default=100)
    options.add_argument("--records", type=int, default=20_000)
    options.add_argument("--rate", type=int, default=50)
    options.add_argument("--seconds", type=float, default=5.0)
    given = options.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 4 * given.clients + 1000), limit))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        data = Path(folder) / "data"
        log = stack.enter_context(open_log(data))
        log.create_topic(TOPIC)
        server = stack.enter_context(start_server(data, is_open=True, most_streams=given.clients))
        clients = Clients(server, given.clients, stack)
        steady(log, server, clients, given.rate, given.seconds)
        burst(server, log, clients, given.records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
