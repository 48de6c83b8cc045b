"""Edit and re-drive: what is sent is what was reviewed."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from redrive.office.access import Role
from tests.pages.conftest import Enter, press
from tests.pages.shop import ORDERS, Shop

pytestmark = pytest.mark.timeout(120)


def test_another_text_than_the_reviewed_one_is_reviewed_first(shop: Shop, enter: Enter) -> None:
    (letter,) = shop.bury(ORDERS, [{"order": 1, "cause": "edited later"}])
    page = enter(Role.OPERATOR)
    page.goto(f"/letters/{letter}/edit")
    page.get_by_label("New payload").fill('{"order": 2, "cause": null}')
    press(page, "Show what changes")
    page.get_by_label("New payload").fill('{"order": 3, "cause": null}')
    page.get_by_role("button", name="Re-drive with this payload").click()
    expect(page.get_by_role("alert")).to_contain_text("not what was reviewed")
    expect(page.locator(".diff .new").first).to_contain_text('"order": 3')
    page.goto(f"/letters/{letter}")
    expect(page.locator("main")).to_contain_text("Became a dead letter")
    expect(page.locator("main")).not_to_contain_text("Replaced by")


def test_what_is_written_otherwise_and_means_the_same_was_reviewed(shop: Shop, enter: Enter) -> None:
    (letter,) = shop.bury(ORDERS, [{"order": 1, "cause": "spaced"}])
    page = enter(Role.OPERATOR)
    page.goto(f"/letters/{letter}/edit")
    new = {"order": 2, "cause": None}
    page.get_by_label("New payload").fill(json.dumps(new))
    press(page, "Show what changes")
    page.get_by_label("New payload").fill(json.dumps(new, indent=4))
    page.get_by_role("button", name="Re-drive with this payload").click()
    expect(page.locator(".badge", has_text="finished")).to_be_visible()


def test_a_start_without_a_review_shows_the_review(shop: Shop, enter: Enter) -> None:
    (letter,) = shop.bury(ORDERS, [{"order": 1, "cause": "never reviewed"}])
    page = enter(Role.OPERATOR)
    page.goto(f"/letters/{letter}/edit")
    page.get_by_label("New payload").fill('{"order": 2, "cause": null}')
    page.eval_on_selector("button[value=review]", "button => { button.value = 'start' }")
    press(page, "Show what changes")
    expect(page.get_by_role("alert")).to_contain_text("not what was reviewed")
    expect(page.locator(".diff .new").first).to_contain_text('"order": 2')
    page.get_by_role("button", name="Re-drive with this payload").click()
    expect(page.locator(".badge", has_text="finished")).to_be_visible()
