"""Definitions of a script and of the modules beside it, sent to another process."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.runtime.sending import Project, received


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def test_modules_and_packages_beside_the_script_are_imported_under_their_own_names(project: Project) -> None:
    project.write("shop/__init__", "from .types import Order")
    project.write(
        "shop/types",
        """
        from functools import lru_cache

        class Missing: pass

        MISSING = Missing()

        class Order:
            def __init__(self, note=MISSING):
                self.note = note

        @lru_cache
        def one(): return Order()
        """,
    )
    project.write("folder/orders", "from shop.types import Order, one\ndef orders(): return [one(), Order()]")
    path = project.pack(
        """
        import shop
        import folder.orders
        from shop.types import MISSING

        missing = [MISSING]

        def check():
            import shop.types as again
            orders = folder.orders.orders()
            same = all(type(order) is shop.Order is again.Order and order.note is missing[0] for order in orders)
            return same, again.MISSING is missing[0], again.__name__, shop.__file__

        pack(check)
        """
    )
    (line,) = received(path)
    assert line.startswith("(True, True, 'shop.types', ")
    assert "__init__.py" in line


def test_the_script_is_not_run_again(project: Project) -> None:
    project.write("beside", "def double(number): return 2 * number")
    text = """
        import beside
        print("the script runs")
        def function(): return beside.double(21)
        if __name__ == "__main__":
            pack(function)
    """
    assert received(project.pack(text)) == ["42"]


def test_a_script_that_the_command_line_loads_is_not_run_again(project: Project, tmp_path: Path) -> None:
    command = f"""if True:
        from millstream.cli.loading import load
        load({str(tmp_path / "project" / "script.py")!r})
    """
    text = """
        import dataclasses
        from millstream import App
        app = App("loaded")
        print("the script runs")

        @dataclasses.dataclass
        class Order:
            id: str
            lines: list = dataclasses.field(default_factory=list)

        def function(): return Order("a")
        pack(function)
    """
    assert received(project.pack(text, "-c", command)) == ["Order(id='a', lines=[])"]


def test_a_module_whose_import_has_not_ended_is_not_imported_elsewhere(project: Project) -> None:
    """Importing the module might start the application."""
    project.write(
        "pipeline",
        """
        print("the pipeline runs")
        from __main__ import pack
        class Order: pass
        def function(): return isinstance(Order(), Order)
        pack(function)
        """,
    )
    assert received(project.pack("import pipeline")) == ["True"]


def test_edited_modules_are_imported_again_with_all_modules_that_use_them(project: Project) -> None:
    project.write("rates", "RATE = 1")
    project.write("convert", "from rates import RATE\ndef convert(): return RATE")
    script = "import convert\npack(convert.convert)"
    first = project.pack(script)
    project.write("rates", "RATE = 2")
    second = project.pack(script)
    assert received(first, second, first) == ["1", "2", "1"]


def test_the_imported_source_is_sent_even_if_the_file_was_edited_since(project: Project) -> None:
    project.write("rates", "def rate(): return 1")
    path = project.pack(
        """
        import rates
        pack(rates.rate)
        Path(rates.__file__).write_text("def rate(): return 2")
        pack(rates.rate)
        """
    )
    assert received(path) == ["1"]


def test_a_module_with_the_name_of_another_one_is_refused(project: Project) -> None:
    project.write("colorsys", "def function(): return 1")
    path = project.pack("import colorsys\npack(colorsys.function)")
    assert received(path) == ["1"]
    (line,) = received(path, before="import colorsys")
    assert line.startswith("run | the module colorsys (")
    assert line.endswith("colorsys.py | rename the one beside the script")


STARTS = """
    from millstream import App
    def function(): return 1
    if __import__("sys").argv[0] == "-c":
        App("started").start()
"""
ENDS = """
    def function(): return 1
    if __import__("sys").argv[0] == "-c":
        raise SystemExit("what are these arguments?")
"""


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            STARTS,
            "run | a module starts an application when it is imported where the tasks of an application run | put",
        ),
        (
            ENDS,
            "run | the application cannot be unpacked where it runs: SystemExit: what are these arguments? | a module",
        ),
    ],
)
def test_a_module_that_starts_an_application_or_ends_the_program_is_an_error(
    project: Project, module: str, message: str
) -> None:
    project.write("eager", module)
    (line,) = received(project.pack("import eager\npack(eager.function)"))
    assert line.startswith(message)
