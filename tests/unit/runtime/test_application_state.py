"""The recorded state of an application, as entries of the log."""

from __future__ import annotations

import pytest

from millstream.errors import SetupError
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.order.positions import LEAST, position
from millstream.runtime.start.application_state import FORMAT, ApplicationState

STATE = ApplicationState(
    tasks=4,
    started_plan={"stores": {}},
    stateful=False,
    start=BatchEnd(offsets={"in": [1, 2]}),
    reset_to={"offset": 7},
    base_batch=3,
    restores={"shop-counts-changelog": "counts"},
    waiting=0,
    bounds={"in": {0: position(5, 0, 7), 11: LEAST}},
    held={2: LEAST},
    cells={0: b"\x00\xff", 12: b"c"},
    restored_cells={1: b""},
)


def test_state_is_loaded_as_it_was_dumped() -> None:
    assert ApplicationState.load("shop", STATE.dump()) == STATE


def test_without_entries_nothing_is_recorded() -> None:
    assert ApplicationState.load("shop", {}) == ApplicationState()


def test_an_update_writes_only_the_entries_that_it_changes() -> None:
    assert ApplicationState(waiting=0, cells={3: b"x"}).dump().keys() == {"format", "waiting", "cells.3"}
    updated = ApplicationState.load("shop", {**STATE.dump(), **ApplicationState(cells={12: b"d"}).dump()})
    assert updated.cells == {0: b"\x00\xff", 12: b"d"}


@pytest.mark.parametrize("entry", [{"format": str(FORMAT - 1).encode()}, {}])
def test_another_format_is_refused(entry: dict[str, bytes]) -> None:
    entries = {name: data for name, data in STATE.dump().items() if name != "format"}
    with pytest.raises(SetupError, match="the state of application 'shop' was written by another version"):
        ApplicationState.load("shop", {**entries, **entry})
