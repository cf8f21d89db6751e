"""Stream.print: prints each record after a label."""

from __future__ import annotations

import pytest
from tests.operators.harness import run

from millstream import App, tumbling


def test_a_line_has_the_label_the_key_and_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    app = App("test")
    app.stream("in", value=int).print("numbers")
    run(app, ("a", 1, 5), ("b", 2, 3))
    assert capsys.readouterr().out == "[numbers]: a, 1\n[numbers]: b, 2\n"


def test_null_keys_and_null_values_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    app = App("test")
    app.stream("in", value=int).print("numbers")
    run(app, (None, 1, 0), ("a", None, 1))
    assert capsys.readouterr().out == "[numbers]: None, 1\n[numbers]: a, None\n"


def test_the_default_label_is_the_name_of_the_input_operator(capsys: pytest.CaptureFixture[str]) -> None:
    app = App("test")
    app.stream("in", value=int).filter(lambda n: n > 0, name="positive").print()
    run(app, ("a", 1, 0))
    assert capsys.readouterr().out == "[positive]: a, 1\n"


def test_a_windowed_key_shows_its_window(capsys: pytest.CaptureFixture[str]) -> None:
    app = App("test")
    app.stream("in", value=int).group_by_key().windowed_by(tumbling(10)).count().to_stream().print("counts")
    run(app, ("a", 1, 12))
    assert capsys.readouterr().out == "[counts]: [a@10/20], 1\n"
