"""Consumer groups."""

from __future__ import annotations

import pytest

from millstream.errors import InvalidNameError, LogError, UnknownGroupError
from millstream.log import Log


@pytest.fixture(autouse=True)
def topics(log: Log) -> None:
    log.create_topic("a", 2)
    log.create_topic("b")


def test_a_group_has_committed_offsets(log: Log) -> None:
    log.commit_offsets("g", {("a", 0): 5, ("b", 0): 1})
    log.commit_offsets("g", {("a", 0): 3, ("a", 1): 9})
    assert log.committed("g") == {("a", 0): 3, ("a", 1): 9, ("b", 0): 1}
    assert log.committed("unknown") == {}


def test_groups_are_listed_and_deleted(log: Log) -> None:
    for group in ("workers", "audit"):
        log.commit_offsets(group, {("a", 0): 5})
    assert log.groups() == ["audit", "workers"]
    log.delete_group("workers")
    assert log.groups() == ["audit"]
    assert log.committed("workers") == {}
    with pytest.raises(UnknownGroupError, match="there is no consumer group 'audits'\n  hint: did you mean 'audit'"):
        log.delete_group("audits")


def test_invalid_offsets_and_names_are_refused(log: Log) -> None:
    for offset in (-1, 2**63):
        with pytest.raises(LogError, match="is not an offset"):
            log.commit_offsets("g", {("a", 0): 5, ("a", 1): offset})
    with pytest.raises(InvalidNameError):
        log.commit_offsets("bad group", {("a", 0): 5})
    assert log.groups() == []
