"""A process that crashes at any failpoint leaves all changes of a call, or none, and a retry completes it.

The failpoints come from the code: a test fails for one that no case reaches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.helpers import in_child, record, rows

from millstream.core.failpoints import EXIT_STATUS, FAILPOINTS, arm
from millstream.log import Append, Publication, Scope
from millstream.log.blocks import encode
from millstream.log.embedded import EmbeddedLog, open_log
from millstream.state.spec import ChangelogRecord
from millstream.views.changes import ViewChange
from millstream.views.tables import list_stores

POINTS = sorted(point for point in FAILPOINTS if point.startswith("log."))


@dataclasses.dataclass
class Case:
    """An action during which a process may be killed.

    Attributes:
        points: The prefixes of the failpoints that it reaches.
        prepare: Writes the content of the log before the action.
        act: The action, which is idempotent.
        look: Reads everything that the action changes.
    """

    points: tuple[str, ...]
    prepare: Callable[[EmbeddedLog], object]
    act: Callable[[EmbeddedLog], object]
    look: Callable[[EmbeddedLog], Any]


def topics(log: EmbeddedLog) -> None:
    log.create_topic("t", 2)
    log.produce("t", [record("before", "0")], partition=0)


def produce_once(log: EmbeddedLog) -> None:
    """Writes unless it has written, as a producer does that must not write twice."""
    if log.ends(["t"])["t"] == [1, 0]:
        log.produce("t", [record("a", "1", partition=0), record("b", "2", partition=1)])


def delete_topics(log: EmbeddedLog) -> None:
    for topic in log.topics():
        log.delete_topic(topic.name)


def publish(log: EmbeddedLog) -> None:
    block = encode([0], [b"k"], [b"v"])
    publication = Publication(
        Scope("app"),
        log.applications.acquire(Scope("app")),
        1,
        appends=[Append("t", 0, block), Append("t", 1, block)],
        offsets={("t", 0): 1},
        views=[ViewChange("store", "key-value", 0, [ChangelogRecord(b"k", b"v", 0)])],
        fingerprints={"t": (1, b"x")},
        state={"plan": b"p"},
    )
    log.applications.publish(publication)


def published(log: EmbeddedLog) -> Any:
    return (
        log.ends(["t"]),
        log.applications.published(Scope("app")),
        log.committed("app"),
        log.applications.state(Scope("app")),
        view_stores(log),
    )


def view_stores(log: Any) -> Any:
    """Returns the stores with views, which no method of a log lists."""
    with log._database.read() as connection:
        return [store.name for store in list_stores(connection, "app")]


def many_blocks(config: dict[str, str]) -> Callable[[EmbeddedLog], object]:
    def prepare(log: EmbeddedLog) -> None:
        log.create_topic("t", 2, config)
        for number in range(6):
            log.produce("t", [record("k", str(number), number)], partition=number % 2)

    return prepare


CASES = {
    "produce": Case(("log.append.", "log.note."), topics, produce_once, lambda log: log.ends(["t"])),
    "publish": Case(
        ("log.publish.", "log.append.after-insert", "log.groups.", "log.state."),
        topics,
        publish,
        published,
    ),
    "create a topic": Case(
        ("log.topic-create.",),
        lambda log: None,
        lambda log: log.create_topic("t", exist_ok=True),
        lambda log: log.topics(),
    ),
    "delete a topic": Case(
        ("log.topic-delete.",),
        topics,
        delete_topics,
        lambda log: log.topics(),
    ),
    "commit offsets": Case(
        ("log.groups.",),
        topics,
        lambda log: log.commit_offsets("g", {("t", 0): 1, ("t", 1): 2}),
        lambda log: log.committed("g"),
    ),
}


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    arm(None)


def die_at(point: str, directory: Path, act: Callable[[EmbeddedLog], object]) -> int:
    def child() -> None:
        with open_log(directory) as log:
            arm(point)
            act(log)

    return in_child(child)


def passed(case: Case) -> list[str]:
    return [point for point in POINTS if point.startswith(case.points)]


@pytest.mark.parametrize(
    ("name", "point"), [(name, point) for name, case in CASES.items() for point in passed(case)], ids=str
)
def test_a_crash_leaves_all_or_nothing_and_a_retry_completes_it(name: str, point: str, tmp_path: Path) -> None:
    case = CASES[name]
    with open_log(tmp_path / "smooth") as log:
        case.prepare(log)
        nothing = case.look(log)
        case.act(log)
        everything = case.look(log)
    directory = tmp_path / "crashed"
    with open_log(directory) as log:
        case.prepare(log)
    assert die_at(point, directory, case.act) == EXIT_STATUS
    with open_log(directory) as log:
        left = case.look(log)
        assert left == (everything if point.endswith("after-commit") else nothing)
        case.act(log)
        assert case.look(log) == everything


def test_a_crash_in_acquire_assigns_no_epoch(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("t")
        epoch = log.applications.acquire(Scope("app"))
    assert (
        die_at("log.acquire.before-commit", tmp_path, lambda log: log.applications.acquire(Scope("app"))) == EXIT_STATUS
    )
    with open_log(tmp_path) as log:
        assert log.applications.publish(Publication(Scope("app"), epoch, 1))
        assert log.applications.acquire(Scope("app")) > epoch


def test_a_crash_in_hold_leaves_the_former_hold(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        many_blocks({"retention.ms": "0"})(log)
        log.cleanup.hold("app", {("t", 0): 1})
    move = {("t", 0): 2, ("t", 1): 2}
    assert die_at("log.hold.before-commit", tmp_path, lambda log: log.cleanup.hold("app", move)) == EXIT_STATUS
    with open_log(tmp_path) as log:
        log.cleanup.apply_retention()
        assert log.starts(["t"]) == {"t": [1, 3]}


RETENTION = ["log.retention.after-delete", "log.retention.before-commit"]


@pytest.mark.parametrize("point", [f"{point}:{number}" for point in RETENTION for number in (1, 2)])
def test_a_crash_in_retention_leaves_consistent_partitions(point: str, tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        many_blocks({"retention.ms": "0"})(log)
    assert die_at(point, tmp_path, lambda log: log.cleanup.apply_retention(now=4)) == EXIT_STATUS
    with open_log(tmp_path) as log:
        assert log.starts(["t"]) == {"t": [0, 0] if point.endswith("1") else [2, 0]}
        for partition in range(2):
            assert [offset for offset, _, _ in rows(log, "t", partition)] == list(
                range(log.starts(["t"])["t"][partition], 3)
            )
        log.cleanup.apply_retention(now=4)
        assert log.starts(["t"]) == {"t": [2, 2]}


COMPACTION = ["log.compaction.before-swap", "log.compaction.after-swap", "log.compaction.before-commit"]


@pytest.mark.parametrize("point", [f"{point}:{number}" for point in COMPACTION for number in (1, 2)])
def test_a_crash_in_compaction_leaves_consistent_partitions(point: str, tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        many_blocks({"cleanup.policy": "compact"})(log)
        before = [rows(log, "t", partition) for partition in range(2)]
    assert die_at(point, tmp_path, lambda log: log.cleanup.compact("t")) == EXIT_STATUS
    with open_log(tmp_path) as log:
        left = [rows(log, "t", partition) for partition in range(2)]
        assert left == [before[0] if point.endswith("1") else before[0][-1:], before[1]]
        log.cleanup.compact("t")
        assert [rows(log, "t", partition) for partition in range(2)] == [before[0][-1:], before[1][-1:]]


@pytest.mark.parametrize("point", ["log.create.before-link", "log.create.after-link"])
def test_a_crash_while_the_log_is_created_leaves_none_or_a_complete_one(point: str, tmp_path: Path) -> None:
    def child() -> None:
        arm(point)
        open_log(tmp_path)

    assert in_child(child) == EXIT_STATUS
    assert (tmp_path / "log.db").exists() == (point == "log.create.after-link")
    with open_log(tmp_path) as log:
        log.create_topic("t")
        assert log.ends(["t"]) == {"t": [0]}


def test_every_failpoint_is_reached_by_a_case_above() -> None:
    tested = {point for case in CASES.values() for point in passed(case)}
    tested |= {
        "log.acquire.before-commit",
        "log.hold.before-commit",
        *RETENTION,
        *COMPACTION,
        "log.create.before-link",
        "log.create.after-link",
    }
    assert tested == set(POINTS)
