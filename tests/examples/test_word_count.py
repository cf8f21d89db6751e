from __future__ import annotations

from examples.word_count.app import app

from millstream import TestDriver


def test_words_are_counted_regardless_of_case_and_punctuation() -> None:
    with TestDriver(app) as driver:
        driver.input("lines").pipe_values(["The mill turns.", "the MILL, the wheel"])
        assert driver.output("word-counts").read_pairs() == [
            ("the", 1), ("mill", 1), ("turns", 1), ("the", 2), ("mill", 2), ("the", 3), ("wheel", 1),
        ]  # fmt: skip
        assert dict(driver.store("counts").all()) == {"mill": 2, "the": 3, "turns": 1, "wheel": 1}


def test_lines_without_words_or_without_a_value_count_nothing() -> None:
    with TestDriver(app) as driver:
        driver.input("lines").pipe_values(["", " … ", None])
        assert driver.output("word-counts").is_empty
        assert driver.dropped == {}


def test_a_count_has_the_time_of_its_latest_line() -> None:
    with TestDriver(app) as driver:
        driver.input("lines").pipe("mill", timestamp=5_000)
        driver.input("lines").pipe("mill", timestamp=2_000)
        assert [record.timestamp for record in driver.output("word-counts").read_all()] == [5_000, 5_000]


def test_counts_survive_a_restart() -> None:
    with TestDriver(app, partitions=3) as driver:
        driver.input("lines").pipe_values(["mill wheel", "mill"])
        driver.restart()
        driver.input("lines").pipe("mill")
        assert driver.store("counts").get("mill") == 3
