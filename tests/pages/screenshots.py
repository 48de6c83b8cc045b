"""`script/screenshots`: the pictures of the documentation, of a shop that really runs and fails.

Into docs/screenshots/, light and dark. Known weakness: it takes the minutes that the plot is to show.
"""

from __future__ import annotations

import logging
import random
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from redrive.office.access import Role
from tests.pages.conftest import ARGUMENTS
from tests.pages.shop import INVOICES, ORDERS, Shop, shop_in_thread

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"
TENANTS = ("acme", "globex", "initech", "umbrella", "hooli")
_CAUSES = (
    (ORDERS, "warehouse", "503", 9),
    (ORDERS, "the address cannot be delivered to", "422", 4),
    (INVOICES, "the tax number is not valid", "400", 3),
    (INVOICES, "bug", "500", 1),
)


def main(minutes: int) -> None:
    """Let the shop run for some minutes, then take the pictures."""
    logging.getLogger("redrive").setLevel(logging.CRITICAL)
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        shop_in_thread(Path(folder)) as shop,
        sync_playwright() as driver,
    ):
        for number in range(minutes):
            _trade(shop, number)
            if number < minutes - 1:
                time.sleep(60)
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        page = browser.new_page(base_url=shop.url, viewport={"width": 1200, "height": 780})
        page.goto("/sign-in")
        page.fill("input[name=key]", shop.key(Role.ADMIN))
        page.click("button.main")
        _take_all(page)
        browser.close()


def _trade(shop: Shop, number: int) -> None:
    draw = random.Random(number)  # noqa: S311 - the same pictures each time
    for place, tenant in enumerate(TENANTS):
        count = draw.randint(30, 60) * (len(TENANTS) - place)
        shop.submit(ORDERS, [{"order": one} for one in range(count)], tenant)
        for queue, cause, code, most in _CAUSES:
            some = draw.randint(0, most)
            payloads = [{"order": 4711 + one, "cause": cause, "code": code} for one in range(some)]
            if payloads:
                shop.bury(queue, payloads, tenant)


def _take_all(page: Page) -> None:
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        _take(page, "/", f"overview-{theme}")
    page.emulate_media(color_scheme="light")
    _take(page, "/letters", "groups")
    page.locator("[data-row] a").first.click()
    page.locator("[data-row] a").first.click()
    _take(page, page.url, "letter")
    page.goto("/preview?filter=code:503")
    _take(page, page.url, "preview")


def _take(page: Page, path: str, name: str) -> None:
    answer = page.goto(path)
    assert answer is not None, path
    assert answer.ok, f"{path} answers {answer.status}"
    page.wait_for_load_state()
    page.screenshot(path=FOLDER / f"{name}.png")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
