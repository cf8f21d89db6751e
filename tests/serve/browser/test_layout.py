"""Every page in light and dark, and at the width of a phone; the size of the assets, and where they come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import ViewportSize, expect
from tests.serve.browser.conftest import DESKTOP, PHONE, Console
from tests.serve.servers import Server

import millstream.serve
from millstream.serve.access.roles import Role

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

FOLDER = Path(millstream.serve.__file__).parent / "console"
MOST_BYTES = 300_000
"""All assets, as they are sent."""

PAGES = (
    "#/",
    "#/applications",
    "#/applications/shop",
    "#/applications/shop?part=store:prices",
    "#/applications/shop?tab=charts",
    "#/applications/shop?tab=errors",
    "#/applications/shop?tab=configuration",
    "#/stores",
    "#/stores/shop/orders-of-shop?watch=north",
    "#/stores/shop/prices?by=key&key=tea&time_from=0",
    "#/stores/shop/customers?tab=changes",
    "#/stores/shop/minutes?tab=schema",
    "#/topics",
    "#/topics/orders?partition=0",
    "#/topics/orders?from=follow",
    "#/topics/orders?tab=partitions",
    "#/topics/orders?tab=schema",
    "#/topics/orders?tab=consumers",
    "#/topics?list=groups&group=shop",
    "#/sql",
    "#/dead-letters",
)

CONTRAST = """() => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
      const value = part / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const low = [];
  const texts = "h1, h2, h3, th, td, dt, dd, a, p, small, button:enabled, .state, .tag";
  for (const element of document.querySelectorAll(texts)) {
    if (!element.innerText?.trim() || !element.getClientRects().length) continue;
    const [one, other] = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (other + 0.05);
    if (contrast < 4.5) low.push(`${element.tagName} ${contrast.toFixed(1)}: ${element.innerText.slice(0, 40)}`);
  }
  return low;
}"""
"""Returns the texts whose contrast is below 4.5, which WCAG 2 asks for."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_pages_have_contrast_and_do_not_scroll_sideways(
    shop_server: Server, console: Console, scheme: str, size: ViewportSize
) -> None:
    page = console(shop_server, role=Role.VIEWER, scheme=scheme, size=size)
    for address in PAGES:
        page.evaluate("address => { location.hash = address }", address)
        expect(page.locator("main h1")).to_be_visible()
        expect(page.locator("main [aria-busy]")).to_have_count(0)
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) <= 0, f"{address} scrolls sideways"
        assert page.evaluate(CONTRAST) == [], address


def test_the_assets_name_no_other_host_and_libraries_have_their_licences() -> None:
    for file in FOLDER.rglob("*"):
        if file.suffix in {".js", ".css", ".html", ".svg"} and file.parent.name != "vendor":
            text = file.read_text(encoding="utf-8")
            assert "https://" not in text, file
            assert "innerHTML" not in text, file
    vendored = {file.stem for file in (FOLDER / "vendor").glob("*.js")}
    licences = {file.stem for file in (FOLDER / "vendor").glob("*.LICENSE")}
    assert vendored - licences == {"hooks"}  # a part of preact


def test_the_assets_are_small(shop_server: Server) -> None:
    sent = whole = 0
    for file in FOLDER.rglob("*"):
        if file.suffix in {".js", ".css", ".html", ".svg"}:
            answer = shop_server.anonymous().request(
                "GET", f"/{file.relative_to(FOLDER).as_posix()}", headers={"Accept-Encoding": "gzip"}
            )
            assert answer.status == 200
            sent += len(answer.body)
            whole += file.stat().st_size
    assert sent < MOST_BYTES, (sent, whole)


def test_the_console_loads_nothing_from_other_hosts(shop_server: Server, console: Console) -> None:
    page = console(shop_server, role=Role.VIEWER)
    hosts = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    for address in PAGES:
        page.evaluate("address => { location.hash = address }", address)
        expect(page.locator("main h1")).to_be_visible()
    page.reload()
    expect(page.locator("main h1")).to_be_visible()
    assert hosts == {f"127.0.0.1:{shop_server.port}"}
