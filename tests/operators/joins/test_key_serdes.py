"""Keys with different serdes are never equal, so joining them is refused."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, TopologyError, join_window, tumbling


def paired(left: Any, right: Any) -> Any:
    return left, right


@pytest.mark.parametrize(("left", "right"), [(int, str), (int, "int"), (str, dict)])
def test_sides_of_different_key_serdes_are_refused(left: Any, right: Any) -> None:
    app = App("keys")
    stream, table = app.stream("a", key=left), app.table("b", key=right)
    with pytest.raises(TopologyError, match="the keys on the left are"):
        stream.left_join(table, paired)
    with pytest.raises(TopologyError, match="the keys on the left are"):
        stream.join(app.stream("c", key=right), paired, join_window("1s"))
    with pytest.raises(TopologyError, match="the keys on the left are"):
        app.table("d", key=left).outer_join(table, paired)


def test_a_foreign_key_join_allows_different_key_serdes() -> None:
    app = App("keys")
    app.table("a", key=int).join(app.table("b", key=str), paired, on=lambda v: v["b"])


def test_a_windowed_table_does_not_join_a_plain_one() -> None:
    app = App("keys")
    counts = app.stream("a", key=str).group_by_key().windowed_by(tumbling("1s")).count()
    with pytest.raises(TopologyError, match="time-windowed<string>"):
        counts.join(app.table("b", key=str), paired)


def test_late_is_refused_for_a_table_join_without_grace() -> None:
    app = App("keys")
    joined = app.stream("a", key=str).join(app.table("b", key=str), paired)
    with pytest.raises(TopologyError, match="late: a join with a table"):
        joined.late()
