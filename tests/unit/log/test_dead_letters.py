"""Dead letters: reading them, and replaying each once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.helpers import in_child, record, rows

from millstream.core.failpoints import EXIT_STATUS, arm
from millstream.core.records import Headers
from millstream.errors import FencedError, LogError, OffsetOutOfRangeError, RecordRefusedError, UnknownTopicError
from millstream.log import (
    Append,
    DeadLetterFilter,
    DeadLetters,
    ProducerRecord,
    Publication,
    Scope,
    dead_letter_topics,
    dead_letters as module,
)
from millstream.log.blocks import decode_headers, encode
from millstream.log.dead_letter import REPLAY_HEADER
from millstream.log.embedded import EmbeddedLog, open_log
from millstream.log.spans import Spans


def why(topic: str = "orders", partition: int = 0, offset: int = 0, exception: str = "builtins.KeyError") -> Headers:
    facts = {
        "exception": exception,
        "message": "no such key",
        "stacktrace": "Traceback",
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
    }
    return tuple((f"__streams.errors.{name}", value.encode()) for name, value in facts.items())


@pytest.fixture(autouse=True)
def topics(log: EmbeddedLog) -> None:
    log.create_topic("orders", 2)
    log.create_topic("payments")
    log.create_topic("dead")


def letter(value: str, timestamp: int = 5, own: Headers = (), **said: Any) -> ProducerRecord:
    return record("k", value, timestamp, headers=(*own, *why(**said)), partition=0)


def write(log: EmbeddedLog, *letters: ProducerRecord) -> None:
    """Writes each letter in a block of its own, so that it can be read alone."""
    for letter in letters:
        log.produce("dead", [letter])


def values(log: EmbeddedLog, topic: str = "orders", partition: int = 0) -> list[str]:
    return [value for *_, value in rows(log, topic, partition)]


def everything(log: EmbeddedLog, topic: str = "orders", partition: int = 0) -> list[dict[str, Any]]:
    stored = log.read(topic, partition, 0, log.ends([topic])[topic][partition]).to_pylist()
    return [{**row, "headers": decode_headers(row["headers"])} for row in stored]


@pytest.fixture(params=[1, 1 << 20], ids=["one-by-one", "together"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters in many transactions, and in one."""
    monkeypatch.setattr(module, "_READ_BYTES", request.param)


def test_a_letter_contains_the_error_and_the_source(log: EmbeddedLog) -> None:
    write(log, letter("a", own=(("trace", b"1"),), topic="orders", partition=1, offset=17), record("k", "stray"))
    first, stray = DeadLetters(log, "dead").read()
    assert (first.partition, first.offset, first.timestamp, first.key, first.value) == (0, 0, 5, b"k", b"a")
    assert (first.exception, first.message, first.stacktrace) == ("builtins.KeyError", "no such key", "Traceback")
    assert first.source == ("orders", 1, 17)
    assert first.original_headers == (("trace", b"1"),)
    assert first.pending
    assert (stray.source, stray.exception, stray.pending) == (None, None, False)


def test_a_letter_about_a_letter_has_its_own_error(log: EmbeddedLog) -> None:
    inner = why("orders", 0, 3)
    write(log, letter("a", own=inner, topic="payments", offset=9, exception="E"))
    (outer,) = DeadLetters(log, "dead").read()
    assert (outer.exception, outer.source) == ("E", ("payments", 0, 9))
    assert outer.original_headers == inner


@pytest.mark.parametrize("missing", ["topic", "partition"])
def test_a_letter_without_source_headers_has_no_source(log: EmbeddedLog, missing: str) -> None:
    headers = tuple((name, value) for name, value in why() if not name.endswith(missing))
    write(log, record("k", "a", headers=headers), record("k", "b", headers=(("__streams.errors.partition", b"x"),)))
    assert [letter.source for letter in DeadLetters(log, "dead").read()] == [None, None]


def test_a_letter_is_found_by_partition_and_offset(log: EmbeddedLog) -> None:
    write(log, letter("a"), letter("b"))
    letters = DeadLetters(log, "dead")
    assert letters.get(0, 1).value == b"b"
    with pytest.raises(OffsetOutOfRangeError, match="no record at offset 2"):
        letters.get(0, 2)
    with pytest.raises(UnknownTopicError, match="has no partition 1"):
        letters.get(1, 0)
    with pytest.raises(UnknownTopicError):
        DeadLetters(log, "none")


@pytest.mark.usefixtures("parts")
def test_replayed_records_are_unchanged_and_in_their_partitions(log: EmbeddedLog) -> None:
    own = (("trace", b"1"), ("empty", None))
    write(log, letter("a", 5, own), letter("b", 6, partition=1), letter("c", 7, topic="payments"), letter("d", 8))
    done = DeadLetters(log, "dead").replay()
    assert (done.replayed, done.refused, done.total) == ({"orders": 3, "payments": 1}, {}, 4)
    first, second = everything(log)
    assert first == {
        "offset": 0,
        "timestamp": 5,
        "key": b"k",
        "value": b"a",
        "headers": (*own, (REPLAY_HEADER, b"dead:0:0")),
    }
    assert second["value"] == b"d"
    assert values(log, partition=1) == ["b"]
    assert values(log, "payments") == ["c"]


@pytest.mark.usefixtures("parts")
def test_a_second_replay_replays_new_letters_only(log: EmbeddedLog) -> None:
    write(log, letter("a"), letter("b"))
    letters = DeadLetters(log, "dead")
    assert letters.replay().total == 2
    assert letters.replay().total == 0
    write(log, letter("c"))
    assert DeadLetters(log, "dead").replay().total == 1
    assert values(log) == ["a", "b", "c"]
    assert log.committed("dead-replay") == {("dead", 0): 3}


def test_a_dry_run_returns_the_result_and_writes_nothing(log: EmbeddedLog) -> None:
    write(log, letter("a"), record("k", "stray"))
    done = DeadLetters(log, "dead").replay(dry_run=True)
    assert (done.replayed, sum(done.refused.values())) == ({"orders": 1}, 1)
    assert values(log) == []
    assert log.groups() == []
    assert DeadLetters(log, "dead").replay().total == 1


@pytest.mark.usefixtures("parts")
def test_letters_that_were_not_selected_can_be_replayed_later(log: EmbeddedLog) -> None:
    write(
        log,
        letter("a"),
        letter("b", exception="shop.BadOrder"),
        letter("c", topic="payments"),
        letter("d"),
        letter("e", exception="shop.BadOrder"),
    )
    letters = DeadLetters(log, "dead")
    assert letters.replay(DeadLetterFilter(exception="BadOrder")).total == 2
    assert values(log) == ["b", "e"]
    assert log.committed("dead-replay") == {("dead", 0): 0}
    assert [letter.replayed for letter in letters.read()] == [False, True, False, False, True]
    assert letters.replay(DeadLetterFilter(source="payments")).replayed == {"payments": 1}
    assert letters.replay(DeadLetterFilter(places=frozenset({(0, 3), (0, 4)}))).total == 1
    assert values(log) == ["b", "e", "d"]
    assert letters.replay(DeadLetterFilter(exception="builtins.KeyError")).total == 1
    assert values(log) == ["b", "e", "d", "a"]
    assert letters.replay().total == 0
    assert log.committed("dead-replay") == {("dead", 0): 5}


@pytest.mark.usefixtures("parts")
def test_a_limit_selects_the_first_letters(log: EmbeddedLog) -> None:
    write(log, *(letter(value) for value in "abcde"))
    letters = DeadLetters(log, "dead")
    assert letters.replay(limit=2).total == 2
    assert letters.replay(limit=2, dry_run=True).total == 2
    assert letters.replay(limit=2).total == 2
    assert letters.replay(limit=2).total == 1
    assert values(log) == list("abcde")


@pytest.mark.usefixtures("parts")
def test_replayed_letters_are_replayed_again_on_request(log: EmbeddedLog) -> None:
    write(log, *(letter(value) for value in "abc"))
    letters = DeadLetters(log, "dead")
    letters.replay(DeadLetterFilter(places=frozenset({(0, 0), (0, 1)})))
    assert letters.replay(again=True, limit=1, dry_run=True).total == 1
    assert letters.replay(again=True, limit=1).total == 1
    assert values(log) == list("aba")
    assert letters.replay().total == 1
    assert letters.replay(again=True).total == 3
    assert values(log) == list("abacabc")
    assert letters.replay().total == 0


def test_letters_that_cannot_be_replayed_are_counted_and_stay_pending(log: EmbeddedLog) -> None:
    log.create_topic("prices", 1, {"cleanup.policy": "compact"})
    keyless = ProducerRecord(None, b"n", 1, why("prices"))
    write(log, letter("a", topic="gone"), letter("b", partition=2), keyless, record("k", "stray"), letter("c"))
    letters = DeadLetters(log, "dead")
    done = letters.replay()
    assert done.replayed == {"orders": 1}
    assert done.refused == {
        "there is no topic 'gone'": 1,
        "topic 'orders' has no partition 2": 1,
        "topic 'prices' is compacted, and accepts no records without a key": 1,
        "it has no headers with its source topic and partition": 1,
    }
    log.create_topic("gone")
    log.add_partitions("orders", 3)
    assert letters.replay().replayed == {"gone": 1, "orders": 1}
    assert (values(log, "gone"), values(log, partition=2), values(log)) == (["a"], ["b"], ["c"])
    assert [letter.pending for letter in letters.read()] == [False, False, True, False, False]


def test_a_refused_record_stops_the_replay_without_loss(log: EmbeddedLog) -> None:
    log.alter_topic("payments", {"max.message.bytes": "100"})
    write(log, letter("a"), letter("b" * 200, topic="payments"), letter("c"))
    letters = DeadLetters(log, "dead")
    with pytest.raises(RecordRefusedError, match="payments"):
        letters.replay()
    assert values(log) == []
    log.alter_topic("payments", {"max.message.bytes": None})
    assert letters.replay().total == 3


def test_records_get_the_time_of_the_replay_on_request(log: EmbeddedLog) -> None:
    write(log, letter("a", 5))
    DeadLetters(log, "dead").replay(now=True)
    assert everything(log)[0]["timestamp"] > 1_600_000_000_000


def test_a_letter_counts_the_replays_of_its_record(log: EmbeddedLog) -> None:
    write(log, letter("a"))
    letters = DeadLetters(log, "dead")
    for expected in range(3):
        last = list(letters.read())[-1]
        assert last.returned == expected
        assert letters.replay().total == 1
        put_back = everything(log)[-1]["headers"]
        write(log, letter("a", own=put_back))  # the record failed again
    assert [value for _, value in put_back] == [b"dead:0:0", b"dead:0:1", b"dead:0:2"]
    foreign = letter("b", own=((REPLAY_HEADER, b"dead-other:0:1"),))
    write(log, foreign)
    assert list(letters.read())[-1].returned == 0


POINTS = ["log.publish.begin", "log.publish.after-appends", "log.publish.before-commit", "log.publish.after-commit"]


@pytest.mark.parametrize("again", [False, True], ids=["", "again"])
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_replay_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, number: int, again: bool
) -> None:
    monkeypatch.setattr(module, "_READ_BYTES", 1)
    with open_log(tmp_path / "killed") as log:
        for topic in ("orders", "dead"):
            log.create_topic(topic)
        write(log, *(letter(value) for value in "abc"))
        if again:
            DeadLetters(log, "dead").replay()

    def replay() -> None:
        arm(f"{point}:{number}")
        with open_log(tmp_path / "killed") as log:
            DeadLetters(log, "dead").replay(again=again)

    assert in_child(replay) == EXIT_STATUS
    with open_log(tmp_path / "killed") as log:
        before = [*"abc"] if again else []
        began = not again or number > 1 or point == POINTS[-1]  # otherwise it was killed before it changed anything
        DeadLetters(log, "dead").replay()
        assert values(log) == [*before, *("abc" if began else "")]


def test_a_fenced_replay_stops_with_an_error(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_READ_BYTES", 1)
    write(log, *(letter(value) for value in "abc"))
    publish, calls = log.applications.publish, []

    def overtaken(publication: Publication) -> bool:
        calls.append(publication)
        if len(calls) == 2:
            assert DeadLetters(log, "dead").replay().total == 2
        return publish(publication)

    monkeypatch.setattr(log.applications, "publish", overtaken)
    with pytest.raises(
        FencedError, match="another replay of topic 'dead' has taken over; this one had replayed 1 records"
    ):
        DeadLetters(log, "dead").replay()
    assert values(log) == ["a", "b", "c"]


def test_concurrent_replays_replay_each_letter_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_READ_BYTES", 1)
    with open_log(tmp_path / "shared") as log:
        for topic in ("orders", "dead"):
            log.create_topic(topic)
        write(log, *(letter(f"{number:02}") for number in range(40)))
    counts: list[int] = []

    def replay() -> None:
        with open_log(tmp_path / "shared") as log:
            try:
                counts.append(DeadLetters(log, "dead").replay().total)
            except FencedError:
                counts.append(-1)

    threads = [threading.Thread(target=replay) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(counts) >= 0  # the last one was not fenced
    with open_log(tmp_path / "shared") as log:
        assert DeadLetters(log, "dead").replay().total == 0
        assert values(log) == [f"{number:02}" for number in range(40)]


@pytest.mark.parametrize("more", [0, 3], ids=["shorter", "longer"])
def test_a_recreated_topic_has_new_letters(log: EmbeddedLog, more: int) -> None:
    write(log, letter("a"), letter("b"))
    DeadLetters(log, "dead").replay()
    log.delete_topic("dead")
    log.create_topic("dead")
    write(log, letter("c"), *(letter("d") for _ in range(more)))
    assert DeadLetters(log, "dead").replay().total == 1 + more
    assert values(log) == ["a", "b", "c", *["d"] * more]


def test_letters_deleted_by_retention_are_skipped(log: EmbeddedLog) -> None:
    log.alter_topic("dead", {"retention.ms": "1000"})
    write(log, letter("a", 1_000), letter("b", 2_000))
    letters = DeadLetters(log, "dead")
    letters.replay()
    write(log, letter("c", 9_000))
    log.cleanup.apply_retention(4_000)
    assert log.starts(["dead"])["dead"] == [2]
    assert letters.replay().total == 1
    assert values(log) == ["a", "b", "c"]


def test_retention_keeps_letters_that_were_not_replayed(log: EmbeddedLog) -> None:
    log.alter_topic("dead", {"retention.ms": "1000"})
    write(log, letter("a", 1_000), letter("b", 1_000, exception="E"))
    DeadLetters(log, "dead").replay(DeadLetterFilter(exception="E"))
    log.cleanup.apply_retention(9_000)
    assert DeadLetters(log, "dead").replay().total == 1


def test_an_application_with_the_name_of_the_replay_is_not_changed(log: EmbeddedLog) -> None:
    epoch = log.applications.acquire(Scope("dead-replay"))
    log.applications.publish(
        Publication(
            Scope("dead-replay"), epoch, 0, [Append("orders", 0, encode([1], [b"k"], [b"v"]))], state={"p": b""}
        )
    )
    write(log, letter("a"))
    with pytest.raises(LogError, match="application 'dead-replay' is not a replay"):
        DeadLetters(log, "dead").replay()
    assert log.applications.publish(Publication(Scope("dead-replay"), epoch, 1))


def test_dead_letter_topics_end_in_letters_or_were_replayed(log: EmbeddedLog) -> None:
    log.create_topic("spread", 3)
    log.create_topic("inner", internal=True)
    log.produce("spread", [letter("a")._replace(partition=2)])
    log.produce("inner", [letter("a")])
    log.produce("orders", [record("k", "v")])
    write(log, letter("a"))
    assert dead_letter_topics(log) == ["dead", "spread"]
    DeadLetters(log, "dead").replay()
    for _ in range(9):
        write(log, record("k", "stray"))
    assert dead_letter_topics(log) == ["dead", "spread"]


def test_spans_behave_like_a_set() -> None:
    import random

    rng, spans, model = random.Random(7), Spans(), set[int]()
    for _ in range(2_000):
        start = rng.randrange(60)
        if rng.random() < 0.5:
            stop = start + rng.randrange(6)
            spans.add(start, stop)
            model.update(range(start, stop))
        else:
            spans.remove(start)
            model.discard(start)
        kept = [number for low, high in spans for number in range(low, high)]
        assert kept == sorted(model)
        assert (start in spans) == (start in model)
        assert spans.gap(start) == next(number for number in range(start, 99) if number not in model)
        assert all(high < low for (_, high), (low, _) in zip(list(spans), list(spans)[1:], strict=False))
