"""The pages of the reference are generated from the code, and describe every public name."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import millstream
from millstream import functions

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_reference", ROOT / "docs" / "generate_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(generator: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert generator.main(["--check"]) == 0, capsys.readouterr().err


def test_every_public_name_has_an_entry(generator: ModuleType) -> None:
    entries = "\n".join(generator.pages().values())
    missing = [name for name in millstream.__all__ if name != "functions" and f"\n## {name}\n" not in entries]
    assert missing == []


def test_every_function_of_expressions_has_a_row(generator: ModuleType) -> None:
    page = generator.pages()["api/expr-functions.md"]
    assert [name for name in functions.__all__ if f"| `{name.rstrip('_')}(" not in page] == []


def test_every_route_of_the_server_has_an_entry_with_its_role(generator: ModuleType) -> None:
    page = generator.pages()["http-api.md"]
    routes = generator.create_routes().openapi()["paths"]
    missing = [
        f"{method.upper()} {path}"
        for path, methods in routes.items()
        for method in methods
        if f"### `{method.upper()} {path}`" not in page
    ]
    assert missing == []
    assert page.count("\nRequires ") == sum(map(len, routes.values()))


def test_an_outdated_or_superfluous_page_is_reported(
    generator: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generator.main(["--output", str(tmp_path)]) == 0
    assert generator.main(["--output", str(tmp_path), "--check"]) == 0
    (tmp_path / "errors.md").write_text("old")
    (tmp_path / "api" / "gone.md").write_text("of a module that is gone")
    (tmp_path / "by-hand.md").write_text("beside the generated pages")
    capsys.readouterr()
    assert generator.main(["--output", str(tmp_path), "--check"]) == 1
    messages = capsys.readouterr().err
    assert "errors.md" in messages
    assert "gone.md" in messages
    assert "by-hand.md" not in messages
