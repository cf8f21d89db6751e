"""Publishing batches: once, in one transaction, and only by the newest instance of a scope."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.unit.log.helpers import rows

from millstream.errors import FencedError, InvalidNameError, NonDeterministicError, RecordRefusedError
from millstream.log import Append, ColumnBlock, Publication, Scope
from millstream.log.blocks import encode
from millstream.log.embedded import EmbeddedLog

FIRST, SECOND = Scope("app", "w1"), Scope("app", "w2")
"""Two workers."""


@pytest.fixture(autouse=True)
def topics(log: EmbeddedLog) -> None:
    log.create_topic("in", 2)
    log.create_topic("out")


def publication(epoch: int, batch: int, value: bytes = b"v", **changes: Any) -> Publication:
    made = Publication(
        Scope("app"),
        epoch,
        batch,
        appends=[Append("out", 0, encode([batch], [b"k"], [value]))],
        offsets={("in", 0): batch * 10},
        fingerprints={"out": (1, value)},
        state={"plan": b"%d" % batch},
    )
    return dataclasses.replace(made, **changes)


def test_a_batch_is_written_with_offsets_state_and_fingerprints(log: EmbeddedLog) -> None:
    epoch = log.applications.acquire(Scope("app"))
    assert log.applications.published(Scope("app")) is None
    assert log.applications.publish(publication(epoch, 3))
    assert rows(log, "out") == [(0, "k", "v")]
    assert log.committed("app") == {("in", 0): 30}
    assert log.applications.published(Scope("app")) == (3, {"out": (1, b"v")}, {("in", 0): 30})
    assert log.applications.state(Scope("app")) == {"plan": b"3"}


def test_offsets_and_state_that_a_batch_does_not_contain_are_kept(log: EmbeddedLog) -> None:
    epoch = log.applications.acquire(Scope("app"))
    log.applications.publish(publication(epoch, 1, state={"plan": b"1", "schema": b"s"}))
    log.applications.publish(publication(epoch, 2, offsets={("in", 1): 7}))
    last = log.applications.published(Scope("app"))
    assert last is not None
    assert last.offsets == log.committed("app") == {("in", 0): 10, ("in", 1): 7}
    assert log.applications.state(Scope("app")) == {"plan": b"2", "schema": b"s"}


def test_a_replay_writes_nothing(log: EmbeddedLog) -> None:
    epoch = log.applications.acquire(Scope("app"))
    log.applications.publish(publication(epoch, 1))
    log.applications.publish(publication(epoch, 2))
    assert not log.applications.publish(publication(epoch, 2, state={"plan": b"other"}))
    assert not log.applications.publish(publication(epoch, 1, fingerprints={"out": (1, b"other")}))
    assert log.ends(["out"]) == {"out": [2]}
    assert log.applications.state(Scope("app")) == {"plan": b"2"}


def test_a_replay_with_other_results_raises_an_error_that_names_them(log: EmbeddedLog) -> None:
    epoch = log.applications.acquire(Scope("app"))
    log.applications.publish(publication(epoch, 1, fingerprints={"a": (1, b"x"), "b": (2, b"y"), "c": (3, b"z")}))
    with pytest.raises(NonDeterministicError, match="batch 1 of application 'app'") as caught:
        log.applications.publish(publication(epoch, 1, fingerprints={"a": (1, b"x"), "b": (2, b"!"), "d": (1, b"w")}))
    assert caught.value.names == ("b", "c", "d")
    assert log.ends(["out"]) == {"out": [1]}


def test_an_older_instance_is_fenced(log: EmbeddedLog) -> None:
    old = log.applications.acquire(Scope("app"))
    log.applications.publish(publication(old, 1))
    new = log.applications.acquire(Scope("app"))
    assert new > old
    with pytest.raises(FencedError, match="another instance of application 'app' has taken over"):
        log.applications.publish(publication(old, 2))
    with pytest.raises(FencedError):
        log.applications.publish(publication(old, 1))
    with pytest.raises(FencedError):
        log.applications.set_state(Scope("app"), {"plan": b"old"}, old)
    assert log.ends(["out"]) == {"out": [1]}
    assert log.applications.state(Scope("app")) == {"plan": b"1"}
    assert log.applications.publish(publication(new, 2))


def test_an_application_that_was_not_acquired_cannot_publish(log: EmbeddedLog) -> None:
    with pytest.raises(FencedError, match="no instance has ever acquired it"):
        log.applications.publish(publication(1, 1))
    log.cleanup.hold("app", {("in", 0): 0})
    for epoch in (0, 1):
        with pytest.raises(FencedError, match="no instance has ever acquired it"):
            log.applications.publish(publication(epoch, 1))


def test_an_instance_from_before_a_deletion_stays_fenced(log: EmbeddedLog) -> None:
    old = log.applications.acquire(Scope("app"))
    log.applications.delete("app")
    with pytest.raises(FencedError):
        log.applications.publish(publication(old, 1))
    assert log.applications.acquire(Scope("app")) > old
    with pytest.raises(FencedError):
        log.applications.publish(publication(old, 1))


def test_a_refused_batch_writes_nothing(log: EmbeddedLog) -> None:
    epoch = log.applications.acquire(Scope("app"))
    bad = Append("out", 0, encode([-1], [b"k"], [b"v"]))
    good = publication(epoch, 1)
    with pytest.raises(RecordRefusedError):
        log.applications.publish(dataclasses.replace(good, appends=[*good.appends, bad]))
    assert log.ends(["out"]) == {"out": [0]}
    assert log.applications.published(Scope("app")) is None
    assert log.committed("app") == {}
    assert log.applications.publish(good)


def test_state_can_be_set_outside_of_a_batch(log: EmbeddedLog) -> None:
    epoch = log.applications.acquire(Scope("app"))
    log.applications.set_state(Scope("app"), {"plan": b"1", "other": b""}, epoch)
    log.applications.set_state(Scope("app"), {"plan": b"2"}, epoch)
    assert log.applications.state(Scope("app")) == {"plan": b"2", "other": b""}
    assert log.applications.state(Scope("unknown")) == {}


def test_applications_are_independent(log: EmbeddedLog) -> None:
    first, second = log.applications.acquire(Scope("app")), log.applications.acquire(Scope("other"))
    log.applications.publish(publication(first, 5))
    assert log.applications.publish(publication(second, 1, scope=Scope("other")))
    log.applications.delete("app")
    assert log.applications.published(Scope("app")) is None
    assert log.applications.state(Scope("app")) == {}
    assert log.groups() == ["other"]
    last = log.applications.published(Scope("other"))
    assert last is not None
    assert last.batch == 1


def test_offsets_of_a_deleted_topic_are_not_returned(log: EmbeddedLog) -> None:
    epoch = log.applications.acquire(Scope("app"))
    log.applications.publish(publication(epoch, 1, offsets={("in", 0): 5, ("out", 0): 1}))
    log.delete_topic("in")
    log.create_topic("in")
    last = log.applications.published(Scope("app"))
    assert last is not None
    assert last.offsets == {("out", 0): 1}


def test_invalid_application_names_are_refused(log: EmbeddedLog) -> None:
    with pytest.raises(InvalidNameError):
        log.applications.acquire(Scope("no/slash"))
    with pytest.raises(InvalidNameError):
        log.cleanup.hold("no/slash", {})


def test_two_workers_publish_in_turn_to_the_group_of_their_application(log: EmbeddedLog) -> None:
    applications = log.applications
    epochs = {scope: applications.acquire(scope) for scope in (Scope("app"), FIRST, SECOND)}
    for batch in (1, 2):
        for partition, scope in enumerate((FIRST, SECOND)):
            offsets = {("in", partition): batch + 10 * partition}
            assert applications.publish(publication(epochs[scope], batch, scope=scope, offsets=offsets))
    assert applications.publish(publication(epochs[Scope("app")], 1, offsets={}, state={"plan": b"own"}))
    assert rows(log, "out") == [(number, "k", "v") for number in range(5)]
    assert log.committed("app") == {("in", 0): 2, ("in", 1): 12}
    assert log.groups() == ["app"]
    assert applications.published(FIRST) == (2, {"out": (1, b"v")}, {("in", 0): 2})
    assert applications.published(SECOND) == (2, {"out": (1, b"v")}, {("in", 1): 12})
    assert applications.published(Scope("app")) == (1, {"out": (1, b"v")}, {})
    assert (applications.state(FIRST), applications.state(Scope("app"))) == ({"plan": b"2"}, {"plan": b"own"})


def test_a_worker_is_fenced_by_its_next_instance_alone(log: EmbeddedLog) -> None:
    applications = log.applications
    old, beside = applications.acquire(FIRST), applications.acquire(SECOND)
    assert applications.publish(publication(old, 1, scope=FIRST))
    new = applications.acquire(FIRST)
    assert new > old
    with pytest.raises(FencedError, match="another instance of worker 'w1' of application 'app' has taken over"):
        applications.publish(publication(old, 2, scope=FIRST))
    with pytest.raises(FencedError):
        applications.set_state(FIRST, {"plan": b"old"}, old)
    assert not applications.publish(publication(new, 1, scope=FIRST))
    assert applications.publish(publication(new, 2, scope=FIRST))
    assert applications.publish(publication(beside, 1, scope=SECOND))


def test_acquiring_an_application_fences_all_its_workers(log: EmbeddedLog) -> None:
    applications = log.applications
    first = applications.acquire(Scope("app"))
    epochs = {scope: applications.acquire(scope, application_epoch=first) for scope in (FIRST, SECOND)}
    for scope, epoch in epochs.items():
        assert applications.publish(publication(epoch, 1, scope=scope))
    second = applications.acquire(Scope("app"))
    for scope, epoch in epochs.items():
        with pytest.raises(FencedError, match="application 'app' was acquired by another instance"):
            applications.publish(publication(epoch, 2, scope=scope))
    with pytest.raises(FencedError, match="application 'app' was acquired by another instance"):
        applications.acquire(FIRST, application_epoch=first)
    epoch = applications.acquire(FIRST, application_epoch=second)
    assert not applications.publish(publication(epoch, 1, scope=FIRST))
    assert applications.publish(publication(epoch, 2, scope=FIRST))
    assert log.ends(["out"]) == {"out": [3]}


def test_an_unknown_scope_has_nothing(log: EmbeddedLog) -> None:
    log.applications.acquire(Scope("app"))
    assert log.applications.published(FIRST) is None
    assert log.applications.state(FIRST) == {}
    with pytest.raises(FencedError, match="no instance has ever acquired it"):
        log.applications.publish(publication(1, 1, scope=FIRST))


def test_deleting_an_application_deletes_its_workers(log: EmbeddedLog) -> None:
    epoch = log.applications.acquire(FIRST)
    log.applications.publish(publication(epoch, 1, scope=FIRST))
    log.applications.delete("app")
    assert log.applications.published(FIRST) is None
    assert log.applications.state(FIRST) == {}
    with pytest.raises(FencedError):
        log.applications.publish(publication(epoch, 2, scope=FIRST))
    assert log.applications.acquire(FIRST) > epoch


def test_the_name_of_a_worker_is_checked(log: EmbeddedLog) -> None:
    for name in ("", "no/slash"):
        with pytest.raises(InvalidNameError):
            log.applications.acquire(Scope("app", name))


def test_a_publication_of_columns_with_a_marker_is_recorded_as_usual(log: EmbeddedLog) -> None:
    epoch = log.applications.acquire(FIRST)
    columns = [Append("out", 0, ColumnBlock([1], [b"k"], [b"v"]))]
    made = Publication(FIRST, epoch, 1, columns, marker=("out", 0))
    assert log.applications.publish(made)
    assert not log.applications.publish(made)
    assert rows(log, "out") == [(0, "k", "v")]


def test_records_are_sent_outside_of_batches(log: EmbeddedLog) -> None:
    driver = log.applications.acquire(Scope("app"))
    epoch = log.applications.acquire(FIRST, application_epoch=driver)
    columns = [Append("out", 0, ColumnBlock([1], [b"k"], [b"v"]))]
    log.applications.send(FIRST, epoch, columns)
    assert rows(log, "out") == [(0, "k", "v")]
    log.applications.flush(FIRST, epoch, {("in", 0): 3})
    assert log.committed("app") == {("in", 0): 3}
    assert log.applications.published(FIRST) is None
    log.applications.acquire(Scope("app"))
    with pytest.raises(FencedError):
        log.applications.send(FIRST, epoch, columns)
    with pytest.raises(FencedError):
        log.applications.flush(FIRST, epoch)
    assert rows(log, "out") == [(0, "k", "v")]
