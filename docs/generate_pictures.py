"""Draws the topologies of the examples into their pages: ``python docs/generate_pictures.py``."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

from millstream.cli.loading import load

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that the examples are found from anywhere


def main() -> None:
    """Writes the pages anew."""
    for page in sorted((ROOT / "examples").glob("*/README.md")):
        script = next(page.parent.glob("*.sql"), None)
        app = importlib.import_module(f"examples.{page.parent.name}.app").app if script is None else load(str(script))
        picture = app.describe("mermaid").strip()
        text = page.read_text(encoding="utf-8")
        drawn = re.sub(
            r"^```mermaid\n.*?^```",
            lambda _, picture=picture: f"```mermaid\n{picture}\n```",  # type: ignore[misc]
            text,
            flags=re.MULTILINE | re.DOTALL,
        )
        page.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
