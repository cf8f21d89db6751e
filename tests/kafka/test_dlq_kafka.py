"""Dead letters of a real broker: replayed once, with control records between them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.unit.log.helpers import rows

from millstream.core.failpoints import EXIT_STATUS
from millstream.dev.broker import Broker
from millstream.errors import FencedError
from millstream.log import (
    Append,
    DeadLetterFilter,
    DeadLetters,
    Publication,
    Scope,
    dead_letter_topics,
    dead_letters as module,
)
from millstream.log.blocks import decode_headers, encode
from millstream.log.kafka import KafkaLog

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

NOW = int(time.time() * 1000)


@pytest.fixture(autouse=True)
def topics(log: KafkaLog) -> None:
    log.create_topic("orders", 2)
    log.create_topic("dead")
    epoch = log.applications.acquire(Scope("shop"))
    for batch, value in enumerate("abcd"):  # each in a separate transaction
        facts = {"exception": "E" if value == "b" else "F", "topic": "orders", "partition": "1", "offset": str(batch)}
        headers = tuple((f"__streams.errors.{name}", fact.encode()) for name, fact in facts.items())
        block = encode([NOW + batch], [b"k"], [value.encode()], [(("own", b"1"), *headers)])
        log.applications.publish(Publication(Scope("shop"), epoch, batch, [Append("dead", 0, block)]))


def values(log: KafkaLog) -> list[str]:
    return [value for *_, value in rows(log, "orders", 1)]


def test_letters_are_replayed_once_by_any_process(log: KafkaLog, other: KafkaLog) -> None:
    assert dead_letter_topics(log) == ["dead"]
    letters = DeadLetters(log, "dead")
    assert [letter.exception for letter in letters.read()] == ["F", "E", "F", "F"]
    assert letters.replay(dry_run=True).replayed == {"orders": 4}
    assert letters.replay(DeadLetterFilter(exception="E")).replayed == {"orders": 1}
    first = log.read("orders", 1, 0, 1).to_pylist()[0]
    assert (first["key"], first["value"], first["timestamp"]) == (b"k", b"b", NOW + 1)
    place = f"dead:0:{next(letter.offset for letter in letters.read(DeadLetterFilter(exception='E')))}"
    assert decode_headers(first["headers"]) == (("own", b"1"), ("__millstream.replay", place.encode()))

    assert DeadLetters(other, "dead").replay().total == 3
    assert values(log) == ["b", "a", "c", "d"]
    assert DeadLetters(log, "dead").replay().total == 0
    assert other.committed("dead-replay") == {("dead", 0): log.ends(["dead"])["dead"][0]}
    assert all(letter.replayed for letter in letters.read())


def test_a_later_replay_fences_the_earlier_one_without_duplicates(
    log: KafkaLog, other: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_READ_BYTES", 1)
    publish, overtaken = log.applications.publish, []

    def late(publication: Publication) -> bool:
        if publication.batch == 1:
            overtaken.append(DeadLetters(other, "dead").replay().total)
        return publish(publication)

    monkeypatch.setattr(log.applications, "publish", late)
    with pytest.raises(FencedError, match="another replay of topic 'dead' has taken over; this one had replayed"):
        DeadLetters(log, "dead").replay()
    assert overtaken
    assert values(log) == ["a", "b", "c", "d"]


REPLAY = """
import sys
from pathlib import Path
from millstream.log import DeadLetters
from tests.kafka.opening import open_kafka_log

with open_kafka_log({"bootstrap.servers": sys.argv[1]}, Path(sys.argv[2])) as log:
    DeadLetters(log, "dead").replay()
"""


@pytest.mark.parametrize("point", ["before-produce", "after-produce", "before-commit", "after-commit"])
def test_a_killed_replay_that_is_run_again_replays_each_letter_once(
    log: KafkaLog, broker: Broker, tmp_path: Path, point: str
) -> None:
    # The first transaction fences earlier replays.
    environment = {**os.environ, "MILLSTREAM_FAILPOINT": f"kafka.publish.{point}:2"}
    command = [sys.executable, "-c", REPLAY, broker.bootstrap_servers, str(tmp_path / "killed")]
    assert subprocess.run(command, env=environment, check=False).returncode == EXIT_STATUS
    assert DeadLetters(log, "dead").replay().total == (0 if point == "after-commit" else 4)
    assert values(log) == ["a", "b", "c", "d"]


def test_a_recreated_topic_has_new_letters(log: KafkaLog, other: KafkaLog) -> None:
    DeadLetters(log, "dead").replay()
    log.delete_topic("dead")
    log.create_topic("dead")
    facts = {"exception": "E", "topic": "orders", "partition": "1", "offset": "9"}
    headers = tuple((f"__streams.errors.{name}", fact.encode()) for name, fact in facts.items())
    log.append([Append("dead", 0, encode([NOW] * 9, [b"k"] * 9, [b"z"] * 9, [headers] * 9))])
    assert DeadLetters(other, "dead").replay().total == 9
    assert values(log) == [*"abcd", *"z" * 9]
