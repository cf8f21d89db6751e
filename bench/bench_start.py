"""Measures the start: the import of Millstream, and the first test of a file.

    python bench/bench_start.py [--rounds N]

Each figure is the best of several fresh processes, less what starting Python itself takes in the same run. Bytecode is
compiled first, as it is after any first import of an installed package.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import subprocess
import sys
import time
from pathlib import Path

FIRST_TEST = """
from millstream import App, TestDriver, tumbling
app = App("word-count")
words = app.stream("lines", value=str).flat_map_values(lambda line: line.lower().split())
counts = words.group_by(lambda _, word: word).windowed_by(tumbling("1m", grace="10s")).count(store="counts")
counts.to_stream().to("word-counts")
with TestDriver(app) as driver:
    driver.input("lines").pipe("to be or not to be", timestamp=1_000)
    assert driver.store("counts").fetch("be", 0) == 2
"""


def seconds(code: str, rounds: int) -> float:
    """Returns the shortest time of a fresh Python process for some code."""
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        best = min(best, time.perf_counter() - started)
    return best


def main() -> int:
    """Measures and prints."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=15)
    rounds = options.parse_args().rounds
    spec = importlib.util.find_spec("millstream")
    assert spec is not None
    assert spec.origin is not None
    compileall.compile_dir(Path(spec.origin).parent, quiet=1)
    bare = seconds("pass", rounds)
    for what, code, limit in (("import millstream", "import millstream", 150), ("the first test", FIRST_TEST, 300)):
        taken = (seconds(code, rounds) - bare) * 1000
        print(f"{what:20} {taken:6.0f} ms   (at most {limit} ms)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
