"""The description of the HTTP API in a real browser."""

from __future__ import annotations

from playwright.sync_api import Browser

from tests.pages.conftest import leave, make_context
from tests.pages.shop import Shop


def test_the_description_of_the_api_fits_a_phone(browser: Browser, shop: Shop) -> None:
    context = make_context(browser, shop.url, viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto("/docs")
    assert page.locator("h1").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    leave(context)
