"""Table.group_by(…).aggregate: like reduce, into an aggregate of any type."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, return-value"

from __future__ import annotations

from tests.operators.harness import refused, rows, run

from millstream import App


def test_the_table_of_the_kafka_streams_documentation() -> None:
    app = App("test")
    app.table("in", value=str).group_by(lambda user, region: (region, len(user)), value=int).aggregate(
        lambda: 0, lambda n, total: total + n, lambda n, total: total - n, value=int
    ).to_stream().to("out")
    driver = run(
        app,
        ("alice", "E", 1),
        ("bob", "A", 2),
        ("charlie", "A", 3),
        ("alice", "A", 4),
        ("charlie", None, 5),
        (None, "E", 6),
        ("bob", "E", 7),
    )
    assert [(region, total) for region, total, _ in rows(driver)] == [
        ("E", 5),
        ("A", 3),
        ("A", 10),
        ("E", 0),
        ("A", 15),
        ("A", 8),
        ("A", 5),
        ("E", 3),
    ]


def trace() -> App:
    app = App("test")
    app.table("in", value=str).group_by(lambda text: tuple(text.split(":")), value=str).aggregate(
        lambda: "0",
        lambda group, word, agg: f"{agg}+{group}{word}",
        lambda group, word, agg: f"{agg}-{group}{word}",
        value=str,
        store="trace",
    ).to_stream().to("out")
    return app


def test_the_first_row_of_a_group_is_added_to_the_initial_aggregate() -> None:
    assert rows(run(trace(), ("a", "g:x", 1))) == [("g", "0+gx", 1)]


def test_a_change_within_a_group_subtracts_then_adds_in_one_update() -> None:
    assert rows(run(trace(), ("a", "g:x", 1), ("a", "g:y", 2)))[1:] == [("g", "0+gx-gx+gy", 2)]


def test_a_change_of_group_subtracts_from_the_old_one_first() -> None:
    driver = run(trace(), ("a", "g:x", 1), ("a", "h:x", 2))
    assert rows(driver)[1:] == [("g", "0+gx-gx", 2), ("h", "0+hx", 2)]


def test_a_deletion_only_subtracts() -> None:
    assert rows(run(trace(), ("a", "g:x", 1), ("a", None, 2)))[1:] == [("g", "0+gx-gx", 2)]


def test_deleting_an_absent_row_emits_nothing() -> None:
    assert rows(run(trace(), ("a", None, 1))) == []


def test_out_of_order_rows_are_aggregated_and_the_timestamp_stays_the_greatest() -> None:
    driver = run(trace(), ("a", "g:x", 9), ("b", "g:y", 4), ("b", "g:z", 4))
    assert rows(driver) == [("g", "0+gx", 9), ("g", "0+gx+gy", 9), ("g", "0+gx+gy-gy+gz", 9)]


def test_a_null_aggregate_deletes_the_group_which_then_starts_over() -> None:
    app = App("test")
    app.table("in", value=str).group_by(lambda word: ("all", word), value=str).aggregate(
        list, lambda word, agg: [*agg, word], lambda word, agg: [w for w in agg if w != word] or None, store="words"
    ).to_stream().to("out")
    driver = run(app, ("a", "x", 1), ("a", None, 2), ("b", "y", 3))
    assert rows(driver) == [("all", ["x"], 1), ("all", None, 2), ("all", ["y"], 3)]


def test_an_aggregate_that_is_changed_in_place_is_correct_downstream() -> None:
    def add(word: str, agg: list[str]) -> list[str]:
        agg.append(word)
        return agg

    def remove(word: str, agg: list[str]) -> list[str]:
        agg.remove(word)
        return agg

    app = App("test")
    words = app.table("in", value=str).group_by(lambda word: ("all", word), value=str).aggregate(list, add, remove)
    words.group_by(lambda key, agg: (str(len(agg)), key), value=str).count().to_stream().to("out")
    driver = run(app, ("a", "x", 1), ("b", "y", 2))
    assert rows(driver) == [("1", 1, 1), ("1", 0, 2), ("2", 1, 2)]


def test_an_adder_of_one_argument_is_refused() -> None:
    grouped = App("test").table("in").group_by(lambda v: ("all", v))
    refused(lambda: grouped.aggregate(int, lambda agg: agg, lambda v, agg: agg), "adder", "(value, agg)")
