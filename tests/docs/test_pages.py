"""The documentation pages: their examples run, and their links resolve."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "docs" / "reference" / "api"  # its examples are docstrings, which pytest collects from the modules
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "bench").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
)

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


@pages
def test_the_examples_of_a_page_run(page: Path) -> None:
    if GENERATED in page.parents:
        return
    # Fences become blank lines: doctest would take a closing one for expected output.
    text = re.sub(r"^[ \t]*(```|~~~).*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    example = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, page.name, str(page), 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert not report, "".join(report)


@pages
def test_the_links_of_a_page_resolve(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text))
    files = [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:", link)]
    assert [file for file in files if not (page.parent / file).exists()] == []
