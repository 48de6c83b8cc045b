"""Live: a page follows what happens, asks nothing while nobody looks, and costs the store little."""

from __future__ import annotations

from playwright.sync_api import Page, Request, expect

from redrive.office.access import Role
from tests.pages.conftest import Enter
from tests.pages.shop import ORDERS, Shop


def test_the_overview_follows_what_happens(shop: Shop, enter: Enter) -> None:
    page = enter(Role.VIEWER)
    dead = _dead_letters(page)
    shop.bury(ORDERS, [{"cause": "seen live"}])
    expect(page.locator(".figures dd").first).to_have_text(str(dead + 1))
    expect(page.get_by_role("link", name="seen live")).to_be_visible()


def test_a_hidden_tab_asks_for_nothing(shop: Shop, enter: Enter) -> None:
    page = enter(Role.VIEWER)
    dead = _dead_letters(page)
    page.evaluate(
        """() => {
          Object.defineProperty(document, "hidden", { value: true, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request))
    shop.bury(ORDERS, [{"cause": "not seen"}])
    page.wait_for_timeout(3_000)
    assert [one.url for one in asked if "/static/" not in one.url] == []
    page.evaluate(
        """() => {
          Object.defineProperty(document, "hidden", { value: false, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    expect(page.locator(".figures dd").first).to_have_text(str(dead + 1))


def _dead_letters(page: Page) -> int:
    """How many the first page shows, once it is there; another test may have left some."""
    return int(page.locator(".figures dd").first.inner_text())
