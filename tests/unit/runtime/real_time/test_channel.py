from __future__ import annotations

import dataclasses
import errno
import socket
from collections.abc import Iterator

import msgspec
import pytest
from tests.unit.runtime.real_time.workers import coordinator_of, wait_for

from millstream.runtime.messages import Failure
from millstream.runtime.real_time.channel import ChannelLink, join
from millstream.runtime.real_time.channel_server import ChannelServer, Connection
from millstream.runtime.real_time.messages import Assignment, Report, TaskReport
from millstream.runtime.real_time.protocol import Challenge, Hello, ToWorker
from millstream.runtime.wire import PeerGone, Wire
from millstream.stages.task_id import TaskId


class Recorder:
    """Admits each process as worker 0, and records what it reports. Implements `Channel`."""

    def __init__(self) -> None:
        self.coordinator = coordinator_of(1, self.notify)
        self.server = ChannelServer(self, self.coordinator)
        self.admitted: list[Hello] = []
        self.reports: list[Report] = []
        self.heartbeats = 0
        self.ended = 0
        self.needs_more = True

    def notify(self) -> None:
        self.server.notify()

    def admit(self, connection: Connection) -> Assignment | None:
        if not self.needs_more:
            return None
        self.admitted.append(connection.hello)
        return Assignment(0, 1, [(TaskId(0, 0), 0)], ["in"], start=len(self.admitted))

    def report(self, _connection: Connection, report: Report) -> None:
        self.coordinator.report(report)
        self.reports.append(report)

    def heard(self, _connection: Connection) -> None:
        self.heartbeats += 1

    def gone(self, _connection: Connection) -> None:
        self.ended += 1

    def failed(self, error: BaseException) -> None:
        raise error


@pytest.fixture
def driver() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.server.close()


def joined(driver: Recorder, lines: list[str] | None = None) -> ChannelLink:
    def take() -> list[str]:
        taken = list(lines or [])
        if lines:
            lines.clear()
        return taken

    link = join(driver.server.address, 0, take)
    assert link is not None
    return link


def test_a_process_gets_its_assignment_and_its_reports_arrive_in_order(driver: Recorder) -> None:
    link = joined(driver)
    assert link.assignment == Assignment(0, 1, [(TaskId(0, 0), 0)], ["in"])
    link.begin({})
    sent = [Report(0, 1, tasks=[TaskReport(TaskId(0, 0), through=[n])], progress=str(n)) for n in range(100)]
    for report in sent:
        link.send(report)
    link.end()
    wait_for(lambda: driver.ended == 1)
    assert driver.reports == [*sent, Report(0, 1, "ended")]
    assert driver.admitted[0].host == socket.gethostname()


def test_a_failure_and_the_last_printed_lines_arrive_before_the_end(driver: Recorder) -> None:
    lines = ["one", "two"]
    link = joined(driver, lines)
    failure = Failure("processing", "the function is wrong", None)
    link.end(failure)
    wait_for(lambda: driver.ended == 1)
    assert [line for report in driver.reports for line in report.printed] == ["one", "two"]
    assert driver.reports[-1].failure == failure


def test_new_orders_are_pushed_to_a_worker_that_sends_nothing(driver: Recorder) -> None:
    link = joined(driver)
    assert not link.orders().is_paused
    driver.coordinator.pause()
    wait_for(lambda: link.orders().is_paused)
    driver.coordinator.resume()
    wait_for(lambda: not link.orders().is_paused)
    driver.coordinator.stop()
    wait_for(lambda: link.orders().is_stopping)
    link.end()


def test_a_restarted_worker_does_not_see_rounds_granted_to_its_predecessor(driver: Recorder) -> None:
    first = joined(driver)
    first.begin({})
    first.send(Report(0, 1, request=5))
    wait_for(lambda: first.orders().granted[0] == 5)
    first.end()
    second = joined(driver)
    second.begin({})
    assert second.orders().granted == (0, 0)
    second.end()


def test_a_worker_that_reports_nothing_sends_heartbeats(driver: Recorder) -> None:
    link = joined(driver)
    wait_for(lambda: driver.heartbeats >= 2)
    assert driver.reports == []
    link.end()


def test_lines_of_a_worker_that_reports_nothing_are_sent(driver: Recorder) -> None:
    lines: list[str] = []
    link = joined(driver, lines)
    lines.append("hello")
    wait_for(lambda: [report.printed for report in driver.reports] == [["hello"]])
    link.end()


def test_a_worker_whose_driver_is_gone_is_ordered_to_stop(driver: Recorder) -> None:
    link = joined(driver)
    driver.server.close()
    assert link.gone.wait(60)
    assert link.orders().is_stopping
    link.begin({})  # does not wait for a driver that is gone
    link.end()


def test_a_process_that_is_not_needed_gets_no_link(driver: Recorder) -> None:
    driver.needs_more = False
    assert join(driver.server.address, 0) is None


def test_a_process_without_the_token_is_refused(driver: Recorder) -> None:
    wrong = dataclasses.replace(driver.server.address, token=b"x" * 32)
    with pytest.raises(PeerGone):
        join(wrong, 0)
    assert driver.admitted == []


def test_the_answer_to_an_earlier_challenge_is_refused(driver: Recorder) -> None:
    address = driver.server.address
    with socket.create_connection((address.host, address.port), 60) as first:
        wire: Wire[ToWorker] = Wire(first, ToWorker)
        assert isinstance(wire.receive(), Challenge)
        link = joined(driver)
        wire.send(driver.admitted[0])
        with pytest.raises(PeerGone):
            wire.receive()
    link.end()
    assert len(driver.admitted) == 1


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 7 + b"\x03abc", msgspec.msgpack.encode(5)])
def test_other_protocols_are_refused(driver: Recorder, data: bytes) -> None:
    address = driver.server.address
    with socket.create_connection((address.host, address.port), 60) as connection:
        connection.sendall(data)
        try:
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
        except OSError as error:
            # The driver has closed the connection before it has read all data. `shutdown` may notice it first.
            assert error.errno in {errno.ECONNRESET, errno.ENOTCONN}  # noqa: PT017
    assert driver.admitted == []


def test_a_token_is_not_shown(driver: Recorder) -> None:
    assert driver.server.address.token.hex() not in repr(driver.server.address)
    assert "token" not in repr(driver.server.address)
