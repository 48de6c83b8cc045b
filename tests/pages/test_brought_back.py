"""The whole story by clicks: why they died, the letter that says it, bringing them back, their arrival.

Alone in its shop: the first page counts all dead letters there are.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from redrive.office.access import Role
from tests.pages.conftest import Enter
from tests.pages.shop import ORDERS, TENANTS, Shop

pytestmark = pytest.mark.timeout(120)


def bury_forty(shop: Shop, cause: str) -> None:
    payloads = [
        {"order": number, "cause": cause, "code": "503", "password": "hunter2"} for number in range(13)
    ]
    for tenant in TENANTS:
        shop.bury(ORDERS, payloads, tenant)
    shop.bury(ORDERS, payloads[:1])


def test_forty_died_and_are_brought_back_by_clicks(shop: Shop, enter: Enter) -> None:
    bury_forty(shop, "the carrier is down")
    page = enter(Role.OPERATOR)
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    expect(page.locator(".status")).to_contain_text("40 dead letters wait for someone")

    page.get_by_role("link", name="the carrier is down").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("the carrier is down")
    page.locator("[data-row] a").first.click()
    expect(page.locator(".life")).to_contain_text("ran for")
    expect(page.locator(".life")).to_contain_text("Became a dead letter")
    expect(page.get_by_text('"password": "***"')).to_be_visible()

    page.get_by_role("link", name="Letters like this").click()
    shop.fixed.add("the carrier is down")
    page.get_by_role("link", name="Re-drive all 40 that match").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Re-drive 40 letters?")
    assert page.get_by_label("Canary").input_value() == "5"
    page.get_by_label("Rate").fill("100/s")
    page.get_by_role("button", name="Re-drive 40 letters").click()

    page.wait_for_url("**/operations/*")
    expect(page.get_by_text("All 40 were delivered.")).to_be_visible()
    bar = page.get_by_role("progressbar")
    assert (bar.get_attribute("aria-valuenow"), bar.get_attribute("aria-valuemax")) == ("40", "40")
    page.reload()
    expect(page.get_by_text("All 40 were delivered.")).to_be_visible()
    page.get_by_role("link", name="Operations").first.click()
    expect(page.locator("tbody tr").first).to_contain_text("40 of 40")
