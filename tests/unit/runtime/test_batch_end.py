"""The stored form of the end of a batch."""

from __future__ import annotations

import json

import pytest

from millstream.errors import SetupError
from millstream.runtime.batches.batch_end import VERSION, BatchEnd
from millstream.runtime.order.batch_order import BatchOrder
from millstream.runtime.order.positions import LEAST, position

END = BatchEnd(
    offsets={"b": [3, 0], "a": [7]},
    has_more={"b": [True, False]},
    time=12,
    global_ends={"g": [4]},
    global_epochs={"g": 2},
    tasks=[1, 5],
    bounds=[("b", 0, position(9, 1, 4))],
    input_topics=["b", "a"],
    order=BatchOrder(3, [(1, LEAST)], [(0, LEAST)], [(0, [2]), (1, [2, -1])]),
    new_topics={"a": [1]},
)


def test_the_stored_form_is_read_back_as_it_was() -> None:
    assert BatchEnd.from_json(END.to_json()) == END
    assert BatchEnd.from_plain(END.to_plain()) == END


def test_an_unchanged_end_has_the_same_text() -> None:
    """Spark compares the texts of two ends to decide whether there is a batch to run."""
    text = json.dumps(END.to_plain())
    assert json.dumps(BatchEnd.from_plain(json.loads(text)).to_plain()) == text


@pytest.mark.parametrize("version", [None, 0, VERSION + 1])
def test_another_version_is_refused(version: int | None) -> None:
    stored = {**END.to_plain(), "version": version}
    with pytest.raises(SetupError, match="the checkpoint was written by another version of Millstream"):
        BatchEnd.from_json(json.dumps(stored))
