"""Damaged views of applications in workers are rebuilt from changelogs, whose keys contain the version of a row."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.test_view_damage import DAMAGES, answers, behind_its_back, damage_view, produce, topology

from millstream.errors import CorruptViewError


@pytest.mark.parametrize("damage", ["a value", "a window", "a start of a session", "a version"])
def test_a_damaged_view_is_rebuilt_at_the_start(damage: str, tmp_path: Path) -> None:
    produce(tmp_path)
    app = topology(tmp_path)
    app.run(mode="local", until_caught_up=True)
    before = answers(app)
    with behind_its_back(tmp_path) as connection:
        damage_view(connection, damage)
    with pytest.raises(CorruptViewError, match=f"of store '{DAMAGES[damage][0]}' is damaged"):
        answers(app)
    app.run(mode="local", until_caught_up=True)
    assert answers(app) == before
