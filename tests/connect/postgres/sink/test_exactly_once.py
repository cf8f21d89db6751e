"""Exactly once: fences, changed numbers of tasks, and a server that is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.connect.postgres.server import PostgresServer
from tests.connect.postgres.sink.following import rows
from tests.connect.postgres.sink.sinks import KEYED, Task, after, orders, query, sink_of, write, writing

from millstream.connect.api import SinkRecord
from millstream.connect.postgres.client import Server
from millstream.connect.postgres.sink.writer import PostgresWriter
from millstream.errors import ConnectorError, FencedError

SUMS = {"insert.mode": "insert", "schema.evolution": "basic"}
WAIT_AT_RECORDS = """
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN SET LOCAL synchronous_commit = on; RETURN new; END $$;
CREATE TRIGGER wait BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION wait()
"""
ROOT = Path(__file__).parents[4]
RECORDED = "SELECT next_offset FROM millstream_offsets"
PARTITIONS = [("orders", number) for number in range(4)]


def test_an_earlier_instance_is_fenced_once_a_later_one_has_read_the_offsets(database: Server) -> None:
    with writing(database) as old:
        write(old, (1, {"a": 1}))
        with writing(database, task=Task(epoch=2)) as new:
            with pytest.raises(FencedError, match="another instance writes partition 0 of topic orders"):
                write(old, (2, {"a": 2}), start=1)
            with pytest.raises(FencedError):
                old.positions([("orders", 0)])
            write(new, (3, {"a": 3}), start=1)
    assert query(database, 'SELECT id FROM "orders" ORDER BY id') == [(1,), (3,)]


def test_the_epoch_of_the_application_counts_before_that_of_the_task(database: Server) -> None:
    with writing(database, task=Task(application_epoch=1, epoch=9)) as old:
        with writing(database, task=Task(application_epoch=2, epoch=1)) as new:
            write(new, (1, {"a": 1}))
        with pytest.raises(FencedError):
            write(old, (2, {"a": 2}))


def test_connectors_and_applications_have_offsets_of_their_own(database: Server) -> None:
    for other in (Task(), Task(connector="other"), Task(application="other")):
        with writing(database, SUMS, task=other) as writer:
            assert writer.positions([("orders", 0)]) == {}
            write(writer, (1, {"a": 1}))
    assert query(database, 'SELECT count(*) FROM "orders"') == [(3,)]


def test_partitions_move_between_tasks_when_their_number_changes(database: Server) -> None:
    written: dict[int, int] = dict.fromkeys(range(4), 0)
    stale: list[PostgresWriter] = []
    for application_epoch, count in enumerate((4, 2, 4, 1, 3), 1):
        for task in range(count):
            mine = [place for place in PARTITIONS if place[1] % count == task]
            # An epoch belongs to a task: those of a task that ran rarely are lower.
            context = Task(task=task, application_epoch=application_epoch, epoch=application_epoch * (4 - task))
            writer = sink_of(database, SUMS).open(context)
            assert writer.positions(mine) == {place: written[place[1]] for place in mine if written[place[1]]}
            for _topic, number in mine:
                records = orders((None, {"n": number}), start=written[number], partition=number)
                writer.write(records, after(records))
                written[number] += 1
            stale.append(writer)
        for writer in stale[:-count]:
            with pytest.raises(FencedError):
                writer.write(orders((None, {"n": 0})), {("orders", number): 1 for number in range(4)})
    for writer in stale:
        writer.close()
    assert query(database, "SELECT n, count(*) FROM orders GROUP BY n ORDER BY n") == [(n, 5) for n in range(4)]


def test_an_instance_that_hangs_in_a_transaction_delays_the_next_one_and_cannot_commit(database: Server) -> None:
    hanging = database.connect()
    hanging.autocommit = False
    with writing(database) as writer:
        write(writer, (1, {"a": 1}))
    with hanging.cursor() as cursor:
        cursor.execute("UPDATE millstream_offsets SET next_offset = 5")
        quick = sink_of(database, {**KEYED, "lock.timeout.ms": 50})
        with closing(quick.open(Task(epoch=2))) as next_one:
            with pytest.raises(ConnectorError, match="lock timeout") as error:
                next_one.positions([("orders", 0)])
            assert error.value.may_pass
            hanging.rollback()
            assert next_one.positions([("orders", 0)]) == {("orders", 0): 1}
    hanging.close()


def test_a_writer_whose_connection_was_lost_says_so_and_the_next_one_goes_on(
    postgres: PostgresServer, database: Server
) -> None:
    with writing(database) as writer:
        write(writer, (1, {"a": 1}))
        postgres.stop()
        postgres.start()
        for _attempt in range(2):
            with pytest.raises(ConnectorError) as error:
                write(writer, (2, {"a": 2}), start=1)
            assert error.value.may_pass
    with writing(database, task=Task(epoch=2)) as writer:
        assert writer.positions([("orders", 0)]) == {("orders", 0): 1}


def test_a_server_that_does_not_answer_is_given_up(database: Server) -> None:
    with writing(database, {**KEYED, "write.timeout.ms": 1_000, "application.name": "silent"}) as writer:
        write(writer, (1, {"a": 1}))
        [(backend,)] = query(database, "SELECT pid FROM pg_stat_activity WHERE application_name = 'silent'")
        os.kill(backend, signal.SIGSTOP)
        try:
            with pytest.raises(ConnectorError, match="took longer than 1000 ms") as error:
                write(writer, (2, {"a": 2}), start=1)
            with pytest.raises(ConnectorError):
                writer.positions([("orders", 0)])
        finally:
            os.kill(backend, signal.SIGCONT)
        assert error.value.may_pass
    with writing(database, task=Task(epoch=2)) as writer:
        assert writer.positions([("orders", 0)]) == {("orders", 0): 1}


def test_a_server_that_refuses_writes_is_an_error_that_may_pass(database: Server) -> None:
    query(database, f"ALTER DATABASE {database.database} SET default_transaction_read_only = on")
    with pytest.raises(ConnectorError, match="read-only transaction") as error:
        sink_of(database, KEYED).open(Task())
    assert error.value.may_pass
    assert error.value.hint == "the server is a standby, or read-only: set connection.url to the primary"


def test_deadlocks_are_tried_again(database: Server) -> None:
    """Two connectors write the same rows of two tables, in orders that they cannot choose."""
    query(database, "CREATE TABLE orders (id bigint PRIMARY KEY, a bigint)")
    errors: list[BaseException] = []

    def run(name: str, keys: list[int]) -> None:
        try:
            with writing(database, task=Task(connector=name)) as writer:
                for batch in range(20):
                    write(writer, *((key, {"a": batch}) for key in keys), start=batch * len(keys))
        except Exception as error:  # noqa: BLE001  (the test looks at it)
            errors.append(error)

    threads = [
        threading.Thread(target=run, args=(name, keys))
        for name, keys in (("up", list(range(300))), ("down", list(range(300))[::-1]))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [error for error in errors if not isinstance(error, ConnectorError) or not error.may_pass] == []
    assert query(database, "SELECT count(*) FROM orders") == [(300,)]


def follow(writer: PostgresWriter, topic: list[SinkRecord], draw: random.Random) -> int:
    """Writes a topic to its end, and returns the offset that the target has then."""
    at = writer.positions([("orders", 0)]).get(("orders", 0), 0)
    while at < len(topic):
        batch = topic[at : at + draw.randrange(1, 30)]
        writer.write(batch, after(batch))
        at += len(batch)
    return writer.positions([("orders", 0)])["orders", 0]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_kills_of_the_server_at_any_moment_lose_and_double_nothing(postgres: PostgresServer, database: Server) -> None:
    total, kills = 12_000, 10
    topic = [SinkRecord("orders", 0, offset, offset % 97, {"n": offset}, 0) for offset in range(total)]
    draw = random.Random(7)
    finished = threading.Event()
    broken: list[BaseException] = []
    survived = 0

    def kill() -> None:
        try:
            for _kill in range(kills):
                time.sleep(draw.random() * 0.3)
                if finished.is_set():
                    return
                postgres.kill()
                postgres.start()
        except Exception as error:  # noqa: BLE001  (the test looks at it)
            broken.append(error)

    killer = threading.Thread(target=kill)
    killer.start()
    at, epoch = 0, 0
    try:
        while (at < total or killer.is_alive()) and not broken:
            epoch += 1
            try:
                with closing(sink_of(database, SUMS).open(Task(epoch=epoch))) as writer:
                    at = follow(writer, topic, draw)
            except ConnectorError as error:
                if not error.may_pass:
                    raise
                survived += 1
                time.sleep(0.01)
    finally:
        finished.set()
        killer.join()
    assert broken == []
    assert survived
    assert query(database, "SELECT count(*), count(DISTINCT n), max(n) FROM orders") == [(total, total, total - 1)]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_kills_of_the_sink_at_any_moment_lose_and_double_nothing(database: Server) -> None:
    """A trigger counts the writes of each offset: a record that is written twice would be seen, an upsert hides it."""
    query(database, "CREATE TABLE orders (id bigint PRIMARY KEY, n bigint); CREATE TABLE written (n bigint)")
    query(
        database,
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO written VALUES (new.n); RETURN new; END $$;"
        "CREATE TRIGGER note AFTER INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION note()",
    )
    with writing(database):
        pass  # it creates the table of offsets
    draw = random.Random(3)
    kills, epoch, code = 0, 0, -signal.SIGKILL
    while code:
        epoch += 1
        command = [sys.executable, "-m", "tests.connect.postgres.sink.following", str(database.port), database.database]
        process = subprocess.Popen([*command, str(epoch)], cwd=ROOT)
        before = query(database, RECORDED)
        while kills < 10 and query(database, RECORDED) == before and process.poll() is None:
            time.sleep(0.005)  # it has started, and writes
        if kills < 10:
            time.sleep(draw.random() * 0.1)
            process.kill()
            kills += 1
        code = process.wait()
    assert kills == 10
    assert dict(query(database, "SELECT id, n FROM orders")) == rows()
    assert query(database, "SELECT n FROM written GROUP BY n HAVING count(*) > 1") == []


def test_a_commit_whose_outcome_is_unknown_is_not_repeated(postgres: PostgresServer, database: Server) -> None:
    """The server commits, waits for a standby that does not exist, and dies before it answers."""
    with writing(database, SUMS) as writer:
        write(writer, (None, {"n": 0}))
    failed: list[BaseException] = []

    def commit() -> None:
        try:
            with writing(database, SUMS) as writer:
                write(writer, (None, {"n": 1}), start=1)
        except Exception as error:  # noqa: BLE001  (the test looks at it)
            failed.append(error)

    thread = threading.Thread(target=commit)
    try:
        # The transaction of `positions` waits for the standby as well: only that of the records is to wait.
        query(database, "ALTER ROLE postgres SET synchronous_commit = local")
        query(database, WAIT_AT_RECORDS)
        query(database, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        query(database, "SELECT pg_reload_conf()")
        thread.start()
        while query(database, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == [(0,)]:
            assert thread.is_alive()
            time.sleep(0.01)
        postgres.kill()
        thread.join()
        postgres.start()
    finally:
        query(database, "ALTER SYSTEM RESET synchronous_standby_names")
        query(database, "ALTER ROLE postgres RESET synchronous_commit")
        query(database, "SELECT pg_reload_conf()")
    [error] = failed
    assert isinstance(error, ConnectorError)
    assert error.may_pass
    query(database, "DROP TRIGGER wait ON orders")
    with writing(database, SUMS, task=Task(epoch=2)) as writer:
        assert writer.positions([("orders", 0)]) == {("orders", 0): 2}
        write(writer, (None, {"n": 2}), start=2)
    assert query(database, "SELECT n FROM orders ORDER BY n") == [(0,), (1,), (2,)]
