"""Makes the pictures of the console in `docs/pictures/` from applications that run while they are taken.

    python docs/generate_console_pictures.py [--scene] [--only NAME …]

It needs Chromium (`apt-get install chromium`) and takes about five minutes. With `--scene` it only runs the server and
the applications, prints the address of the console, and waits for Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # makes it runnable as a script

from examples.fraud import generate as payments
from examples.fraud.app import app as fraud
from examples.generator import Generated, create_topics, write
from examples.orders import generate as orders
from examples.orders.app import app as shop
from examples.stock_statistics import generate as trades
from examples.stock_statistics.app import app as statistics
from examples.word_count import generate as lines
from examples.word_count.app import app as words
from playwright.sync_api import Page, sync_playwright

from millstream import App
from millstream.config import Config
from millstream.log import Log, open_log

PICTURES = Path(__file__).parent / "pictures"
WARM_UP_SECONDS = 120.0
SETTLE_MS = 12_000
"""A page collects the rates of operators and topics itself."""


class Part(NamedTuple):
    """An application of the scene, and its input."""

    app: App
    topics: list[str]
    records: Callable[[random.Random, int, int], Iterator[Generated]]
    every_ms: int


def delivered(event: dict[str, Any]) -> dict[str, Any]:
    """Returns the hours of a delivery; an event without a weight is one that it cannot process."""
    return {"parcel": event["parcel"], "cost": round(event["weight"] * 1.8, 2)}


def parcels() -> App:
    """An application whose input has records that it cannot process."""
    app = App(
        "parcels",
        config={"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "parcels-dead"},
    )
    app.stream("parcel-events", key=str, value=dict).map_values(delivered, name="price").to("parcel-prices")
    return app


def parcel_events(rng: random.Random, count: int, start: int) -> Iterator[Generated]:
    """Yields events of parcels. A few have no weight, or one that is not a number."""
    for number in range(count):
        weight: Any = round(rng.uniform(0.2, 20.0), 1)
        event = {"parcel": f"P{10_000 + rng.randrange(900)}", "city": rng.choice(orders.CITIES), "weight": weight}
        draw = rng.random()
        if draw < 0.004:
            del event["weight"]
        elif draw < 0.006:
            event["weight"] = None
        yield Generated("parcel-events", event["parcel"], event, start + number * 20)


@contextlib.contextmanager
def scene(directory: Path) -> Iterator[str]:
    """Runs the server and the applications, and yields the address of the console."""
    parts = [
        Part(words, lines.TOPICS, lines.records, 12),
        Part(statistics, trades.TOPICS, trades.records, 5),
        Part(fraud, payments.TOPICS, payments.records, 40),
        Part(shop, orders.TOPICS, orders.records, 60),
        Part(parcels(), ["parcel-events"], parcel_events, 25),
    ]
    ended = threading.Event()
    with open_log(directory) as log, contextlib.ExitStack() as stack:
        for part in parts:
            create_topics(log, part.topics)
            generator = threading.Thread(target=generate, args=(log, part, ended), daemon=True)
            generator.start()
            stack.callback(generator.join)
        stack.callback(ended.set)
        address = stack.enter_context(serving(directory))
        for part in parts:
            settings = {**part.app.config.explicit, "status": "none", "state.dir": str(directory)}
            part.app.config = Config({**settings, "commit.interval.ms": 200})
            stack.enter_context(part.app.start(mode="local"))
        run_statements(address)
        yield address


STATEMENTS = """
CREATE STREAM trade_events (ticker VARCHAR KEY, price DOUBLE, ask DOUBLE, `SIZE` INT)
  WITH (KAFKA_TOPIC='trades', VALUE_FORMAT='JSON');
CREATE TABLE volumes AS SELECT ticker, COUNT(*) AS trades, SUM(`SIZE`) AS volume, MAX(price) AS highest
  FROM trade_events GROUP BY ticker EMIT CHANGES;
"""
QUERY = (
    "SELECT ticker, price, ask, ROUND(ask - price, 2) AS spread\nFROM trade_events\nWHERE price > 100\nEMIT CHANGES;"
)


def run_statements(address: str) -> None:
    """Creates a stream and a table in SQL."""
    body = json.dumps({"ksql": STATEMENTS}).encode()
    request = urllib.request.Request(f"{address}ksql", body, {"Content-Type": "application/json"})  # noqa: S310
    urllib.request.urlopen(request, timeout=60).close()  # noqa: S310


def generate(log: Log, part: Part, ended: threading.Event) -> None:
    """Writes records of now, ten times per second, at a rate that changes slowly."""
    endless = part.records(random.Random(7), sys.maxsize, int(time.time() * 1000))  # noqa: S311  (sample data)
    rng = random.Random(part.every_ms)  # noqa: S311
    pace = 1.0
    while not ended.wait(0.1):
        pace = min(1.6, max(0.5, pace + rng.uniform(-0.08, 0.08)))
        now = int(time.time() * 1000)
        records = itertools.islice(endless, round(pace * 100 / part.every_ms))
        write(log, (record._replace(timestamp=now) for record in records))


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[str]:
    """Runs a server without tokens on a free port, and yields its address."""
    options = {"host": "127.0.0.1", "port": 0, "data": str(directory), "is_open": True}
    with subprocess.Popen(
        [sys.executable, "-m", "millstream.serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(options) + "\n")
        process.stdin.flush()
        yield json.loads(process.stdout.readline())["address"]
        process.stdin.close()


class Picture(NamedTuple):
    """A picture of a page.

    Attributes:
        name: The name of the file, after ``console-``.
        address: The page.
        act: Brings the page into the state that the picture shows.
        scheme: Its colours.
        size: The size of the window.
    """

    name: str
    address: str
    act: Callable[[Page], None] | None = None
    scheme: Literal["light", "dark"] = "light"
    size: tuple[int, int] = (1240, 720)


def choose_join(page: Page) -> None:
    """Shows the details of an operator."""
    page.get_by_role("button", name="operator orders-customers-foreign-key-join", exact=True).click()


def open_letter(page: Page) -> None:
    """Opens the first dead letter of the most frequent cause."""
    page.locator(".summary").first.click()
    page.locator("tr[data-row]").first.click()


def run_query(page: Page) -> None:
    """Runs a push query."""
    page.get_by_label("SQL", exact=True).fill(QUERY)
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_timeout(SETTLE_MS)


PHONE = (390, 780)
ALL = (
    Picture("overview", "#/"),
    Picture("overview-dark", "#/", scheme="dark"),
    Picture("overview-phone", "#/", size=PHONE),
    Picture("application", "#/applications/word-count"),
    Picture("application-dark", "#/applications/orders", choose_join, scheme="dark"),
    Picture("charts", "#/applications/stock-statistics?tab=charts"),
    Picture("stores", "#/stores/orders/deliveries", size=(1240, 600)),
    Picture("topics", "#/topics/trades", size=(1240, 600)),
    Picture("sql", "#/sql", run_query),
    Picture("dead-letters", "#/dead-letters", open_letter),
)


FONT = """addEventListener("DOMContentLoaded", () => {
  document.documentElement.style.setProperty("--font", "Inter, system-ui");
});"""
"""Inter is the font if it is installed (Debian's package fonts-inter)."""


def take(address: str, names: list[str]) -> None:
    """Takes pictures: those of these names, or all."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for picture in (each for each in ALL if not names or each.name in names):
            width, height = picture.size
            context = browser.new_context(color_scheme=picture.scheme, viewport={"width": width, "height": height})
            context.add_init_script(FONT)
            page = context.new_page()
            page.goto(address + picture.address)
            page.locator("main h1").wait_for()
            page.wait_for_timeout(SETTLE_MS)
            if picture.act is not None:
                picture.act(page)
                page.wait_for_timeout(2_000)
            file = PICTURES / f"console-{picture.name}.png"
            page.screenshot(path=file)
            print(f"{file.name}: {file.stat().st_size // 1000} kB")
            context.close()
        browser.close()


def main() -> int:
    """Takes the pictures."""
    parser = argparse.ArgumentParser(description="The pictures of the console.")
    parser.add_argument("--scene", action="store_true", help="only run the server and the applications")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="take only these, such as overview")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, scene(Path(directory)) as address:
        print(address, flush=True)
        if options.scene:
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait()
        else:
            PICTURES.mkdir(exist_ok=True)
            time.sleep(WARM_UP_SECONDS)  # the charts need a history
            take(address, options.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
