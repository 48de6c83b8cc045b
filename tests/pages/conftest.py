"""One browser and one shop a module; a context (cookies, cache) a test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, expect, sync_playwright

from redrive.office.access import Role
from tests.pages.shop import Shop, shop_in_thread
from tests.servers import give_up

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


PATIENCE_MS = 90_000  # a busy machine is slow; a right page is not waited for
expect.set_options(timeout=PATIENCE_MS)


@dataclass
class Watched:
    """What a page must not do: say something on the console, raise, open a dialog."""

    said: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", self._dialog)

    def _console(self, message: ConsoleMessage) -> None:
        expected = "status of 4" in message.text or message.location["url"].endswith("/frame")
        if message.type in ("error", "warning") and not expected:
            self.said.append(message.text)

    def _dialog(self, dialog: Dialog) -> None:
        self.said.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a window.

    Its driver keeps an event loop running in this thread: no test of the same module may be `async`.
    """
    path = shutil.which("chromium")
    if path is None:
        give_up("chromium is not installed: apt-get install chromium")
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with shop_in_thread(tmp_path_factory.mktemp("shop")) as opened:
        yield opened


Enter = Callable[..., Page]


def make_context(browser: Browser, url: str, **options: object) -> BrowserContext:
    """A browser of someone else: cookies and cache of its own."""
    return browser.new_context(**{"locale": "en-GB", "base_url": url, **options})  # type: ignore[arg-type]


def leave(context: BrowserContext) -> None:
    """Close a context whose pages have arrived somewhere: Chromium may never close one that is on its way."""
    for page in context.pages:
        page.goto("about:blank")
    context.close()


def enter_key(page: Page, key: str) -> None:
    """Sign in, and have arrived."""
    page.goto("/sign-in")
    page.fill("input[name=key]", key)
    with page.expect_navigation():
        page.click("button.main")


def press(page: Page, name: str, role: Literal["button", "link"] = "button") -> None:
    """Click, and have arrived where that leads: what was asked for is done."""
    with page.expect_navigation():
        page.get_by_role(role, name=name).click()


@pytest.fixture
def enter(browser: Browser, shop: Shop) -> Iterator[Enter]:
    """Pages of someone who signed in with a key of a role; nothing they do may be worth a warning."""
    contexts: list[BrowserContext] = []
    watched = Watched()

    def sign_in(role: Role = Role.ADMIN, tenant: str | None = None, **options: object) -> Page:
        context = make_context(browser, shop.url, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        watched.watch(page)
        enter_key(page, shop.key(role, tenant))
        return page

    yield sign_in
    for context in contexts:
        leave(context)
    assert watched.said == []
