"""A batch that is run again takes the same records, while tasks hold records and whatever the settings are by then."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest
from tests.fault import model, smoke
from tests.unit.log.helpers import in_child

from millstream.core.failpoints import EXIT_STATUS, arm
from millstream.errors import RunError
from millstream.runtime.in_process.batches import AFTER_PUBLISH, AFTER_STATE, InProcessRun
from millstream.runtime.publish.committer import Committer

PER_KEY = 24
RECORDS = 150
SEED = 9
BATCHES = 4
"""The last of these batches is run again, in the middle of the backlog."""

EXACT: dict[str, Any] = {"exact.replays": True}
OFF: dict[str, Any] = {"exact.replays": False}


class Outcome(NamedTuple):
    """The last batch of a run.

    Attributes:
        tasks: Task, records taken by source, number of waiting records and least held position, of all tasks.
        topics: The records of all topics, internal topics and changelogs among them.
        order: The order of the batch, as it was recorded.
    """

    tasks: list[tuple[Any, ...]]
    topics: dict[str, list[dict[str, Any]]]
    order: Any

    @property
    def waiting(self) -> int:
        return sum(waiting for _task, _taken, waiting, _held in self.tasks)


def outcome(run: InProcessRun) -> Outcome:
    progress = [task for result in run.results for task in result.tasks]
    ends = run.log.ends([topic.name for topic in run.log.topics()])
    return Outcome(
        sorted((task.task, task.taken, task.waiting, task.held) for task in progress),
        {
            topic: [run.log.read(topic, partition, 0, end).to_pydict() for partition, end in enumerate(row)]
            for topic, row in ends.items()
        },
        run.checkpoint.end(run.checkpoint.next_batch - 1).order,
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("filled") / "data"
    smoke.fill(directory, SEED, PER_KEY)
    return directory


@pytest.fixture(scope="module")
def expected(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Outcome]:
    """The outcome of a run without a crash, with exact replays and without."""
    outcomes = {}
    for config in (EXACT, OFF):
        directory = Path(shutil.copytree(filled, tmp_path_factory.mktemp("expected") / "data"))
        with InProcessRun(smoke.build(directory, **config), records=RECORDS) as run:
            for _ in range(BATCHES - 1):
                assert run.batch()
            assert outcome(run).waiting, "the batch begins with held records"
            assert run.batch()
            outcomes[config["exact.replays"]] = outcome(run)
    assert outcomes[True].waiting > outcomes[False].waiting
    return outcomes


@pytest.fixture
def directory(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "data"))


@pytest.mark.parametrize("point", [AFTER_STATE, AFTER_PUBLISH])
@pytest.mark.parametrize(
    ("before", "after", "records", "cold"),
    [
        (EXACT, EXACT, RECORDS, False),
        (EXACT, EXACT, RECORDS, True),
        (EXACT, EXACT, RECORDS // 3, False),
        (EXACT, OFF, RECORDS * 3, False),
        (OFF, EXACT, RECORDS, False),
    ],
    ids=["unchanged", "cold", "smaller batches", "larger batches, not exact", "exact"],
)
def test_a_batch_after_a_crash_takes_the_same_records(
    point: str,
    before: dict[str, Any],
    after: dict[str, Any],
    records: int,
    cold: bool,
    expected: dict[bool, Outcome],
    directory: Path,
) -> None:
    """Also if it was published: other outputs would be a `NonDeterministicError`."""

    def crash() -> None:
        arm(f"{point}:{BATCHES}")
        with InProcessRun(smoke.build(directory, **before), records=RECORDS) as run:
            run.run()

    assert in_child(crash) == EXIT_STATUS
    with InProcessRun(smoke.build(directory, **after), records=records, cold=cold) as run:
        assert run.checkpoint.next_batch == BATCHES - 1
        assert run.checkpoint.has_end(BATCHES - 1)
        assert run.batch()
        assert outcome(run) == expected[before["exact.replays"]]
        run.run()
    findings = model.verify(directory, SEED, PER_KEY)
    assert not findings or OFF in (before, after), str(findings)


@pytest.mark.parametrize("is_published", [False, True])
def test_a_batch_takes_the_same_records_if_the_same_process_runs_it_again(
    is_published: bool, expected: dict[bool, Outcome], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks are in memory, and have taken the records already."""
    commit = Committer.commit

    def lost(committer: Committer, batch: int, payloads: list[bytes]) -> NoReturn:
        if is_published:
            commit(committer, batch, payloads)
        raise RunError("the commit was lost")

    with InProcessRun(smoke.build(directory, **EXACT), records=RECORDS) as run:
        for _ in range(BATCHES - 1):
            assert run.batch()
        monkeypatch.setattr(Committer, "commit", lost)
        with pytest.raises(RunError, match="lost"):
            run.batch()
        monkeypatch.setattr(Committer, "commit", commit)
        run.change(records=RECORDS // 3)
        assert run.batch()
        assert outcome(run) == expected[True]
        run.run()
    findings = model.verify(directory, SEED, PER_KEY)
    assert not findings, str(findings)
