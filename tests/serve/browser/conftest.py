"""A real browser on pages of a real server. Without Chromium the tests are skipped.

- `console(server)` opens a tab on a server, signed in by its one-time code or by a token of a role.
- At the end of a test, no tab may have reported an error, or something that the content security policy refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect, sync_playwright
from tests.serve.servers import Server

from millstream.serve.access.roles import Role

CHROMIUM = shutil.which("chromium")
DESKTOP = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=390, height=780)
SECONDS = 40
"""A page on a busy machine may take this long."""

Console = Callable[..., Page]

expect.set_options(timeout=SECONDS * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser of a module. While it runs, the event loop of Playwright is that of the thread; others need one."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium on the PATH: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def console(browser: Browser) -> Iterator[Console]:
    """Opens tabs of the console.

    ``console(server, "#/topics")`` opens a page. Options: ``role``, by default that of the one-time code; ``context``
    of another tab, whose session it shares; ``scheme`` "light" or "dark"; ``size``.
    """
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def open_(
        server: Server,
        address: str = "#/",
        *,
        role: Role | None = None,
        context: BrowserContext | None = None,
        scheme: Any = "light",
        size: ViewportSize = DESKTOP,
    ) -> Page:
        is_new = context is None
        if context is None:
            context = browser.new_context(color_scheme=scheme, viewport=size)
            context.set_default_timeout(SECONDS * 1000)
            contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(f"error: {error.stack or error}"))
        page.on("console", lambda message: problems.extend(_problem(message.type, message.text)))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        base = server.address.partition("#")[0]
        if is_new and role is None:
            page.goto(server.address)
        elif is_new and role is not None:
            page.goto(base)
            page.get_by_label("Token").fill(server.token(role))
            page.get_by_role("button", name="Sign in").click()
        else:
            page.goto(base + address)
        expect(page.locator("header.bar")).to_be_visible()
        page.evaluate("address => { location.hash = address }", address)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not problems, "\n".join(problems)


def _problem(kind: str, text: str) -> list[str]:
    """What the console of the browser shows, unless it is an answer with an error status, which pages handle."""
    is_answer = text.startswith("Failed to load resource")
    return [f"{kind}: {text}"] if kind in {"error", "warning"} and not is_answer else []
