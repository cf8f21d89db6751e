"""Measures the first paint of the console with an empty cache, and the size of its files.

    python bench/bench_console.py [--rounds N]

An application runs, and a client opens the page Overview in a new browser context each time. The first contentful
paint is that which the browser reports, from the start of the navigation. It needs Chromium on the PATH.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.bench_serve import Application, Feeder, serving
from bench.measuring import Figure
from playwright.sync_api import Browser, sync_playwright

from millstream.log import open_log
from millstream.serve.console_files import FOLDER

RATE = 1000.0
SERVED = {".html", ".js", ".css", ".svg"}

MEASURE = """() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  const [page] = performance.getEntriesByType("navigation");
  const files = performance.getEntriesByType("resource").filter(each => !each.name.includes("/api/"));
  return {
    paint: paint.startTime,
    requests: files.length + 1,
    transferred: [page, ...files].reduce((total, each) => total + each.transferSize, 0),
  };
}"""


def open_page(browser: Browser, address: str) -> dict[str, Any]:
    """Opens the page with an empty cache; returns the times in milliseconds, and what was transferred."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        page = context.new_page()
        page.goto(address)
        page.get_by_role("row", name="bench").get_by_text("RUNNING").wait_for()
        shown = page.evaluate("performance.now()")
        return {**page.evaluate(MEASURE), "shown": shown}
    finally:
        context.close()


def sizes() -> tuple[int, int, int]:
    """The number of the files of the console, their bytes, and their bytes compressed."""
    contents = [file.read_bytes() for file in sorted(FOLDER.rglob("*")) if file.suffix in SERVED]
    return len(contents), sum(map(len, contents)), sum(len(gzip.compress(each, 6)) for each in contents)


def measure(rounds: int, program: str) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-console-") as directory:
        data = Path(directory) / "data"
        with open_log(data) as log:
            log.create_topic("events", 2)
        application = Application(data, "local")
        feeder = Feeder(data, 1000, RATE)
        try:
            feeder.start()
            with serving(data, is_open=True) as server, sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
                opened = [open_page(browser, f"http://127.0.0.1:{server.port}/") for _ in range(rounds + 1)][1:]
                browser.close()
        finally:
            feeder.stopped.set()
            feeder.join()
            application.end()
    count, raw, compressed = sizes()
    paints = [each["paint"] for each in opened]
    first = Figure("paint", "first contentful paint, median", statistics.median(paints), "ms")
    first.notes = {"from": min(paints), "to": max(paints), "loads": len(paints)}
    rows = Figure("rows", "until the row of the application is shown, median", 0.0, "ms")
    rows.value = statistics.median(each["shown"] for each in opened)
    sent = Figure("sent", "sent for the first page", opened[-1]["transferred"] / 1000, "kB").at_most(300)
    sent.notes = {"requests": opened[-1]["requests"]}
    files = Figure("files", "all files of the console, compressed", compressed / 1000, "kB").at_most(300)
    files.notes = {"files": count, "kB uncompressed": raw / 1000}
    return [first, rows, sent, files]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="how often the page is opened")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    options = parser.parse_args()
    program = shutil.which("chromium")
    if program is None:
        print("there is no chromium on the PATH: apt-get install chromium")
        return 0
    figures = measure(options.rounds, program)
    print(f"the console; load of the machine: {os.getloadavg()[0]:.1f}")
    for figure in figures:
        print(figure)
    if options.json is not None:
        options.json.write_text(json.dumps([figure.data() for figure in figures], indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
