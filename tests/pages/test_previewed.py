"""A button does what it says: of the letters that its page counted, whatever has died since."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from redrive.office.access import Role
from tests.pages.conftest import Enter
from tests.pages.shop import ORDERS, Shop

pytestmark = pytest.mark.timeout(120)


def bury(shop: Shop, code: str, count: int) -> None:
    shop.bury(ORDERS, [{"cause": f"cause {code}", "code": code} for _ in range(count)])


def test_redrive_2_letters_redrives_2_although_60_more_have_died(shop: Shop, enter: Enter) -> None:
    bury(shop, "701", 2)
    page = enter(Role.OPERATOR)
    page.goto("/preview?filter=code:701")
    bury(shop, "701", 60)
    shop.fixed.add("cause 701")
    page.get_by_role("button", name="Re-drive 2 letters").click()
    expect(page.get_by_text("All 2 were delivered.")).to_be_visible()
    page.goto("/preview?filter=code:701")
    expect(page.get_by_role("heading", level=1)).to_have_text("Re-drive 60 letters?")
    assert page.get_by_label("Canary").input_value() == "5"


def test_discard_2_letters_discards_2_although_3_more_have_died(shop: Shop, enter: Enter) -> None:
    bury(shop, "702", 2)
    page = enter(Role.OPERATOR)
    page.goto("/preview?kind=discard&filter=code:702")
    bury(shop, "702", 3)
    page.get_by_role("button", name="Discard 2 letters").click()
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "2")
    page.goto("/preview?kind=discard&filter=code:702")
    expect(page.get_by_role("heading", level=1)).to_have_text("Discard 3 letters?")


def test_a_form_with_a_mistake_asks_again_with_what_is_there_and_its_safe_canary(
    shop: Shop, enter: Enter
) -> None:
    bury(shop, "703", 2)
    page = enter(Role.OPERATOR)
    page.goto("/preview?filter=code:703")
    bury(shop, "703", 30)
    page.get_by_label("Rate").fill("0/s")
    page.get_by_role("button", name="Re-drive 2 letters").click()
    expect(page.get_by_role("alert")).to_contain_text("rate 0/s lets nothing through")
    expect(page.get_by_role("heading", level=1)).to_have_text("Re-drive 32 letters?")
    expect(page.get_by_label("Canary")).to_have_value("5")


def test_a_form_that_does_not_say_what_was_counted_starts_nothing(shop: Shop, enter: Enter) -> None:
    bury(shop, "704", 1)
    page = enter(Role.OPERATOR)
    page.goto("/preview?filter=code:704")
    for name in ("as_of", "counted"):
        page.eval_on_selector(f"form.stack [name={name}]", "field => field.remove()")
    page.get_by_role("button", name="Re-drive 1 letter").click()
    expect(page.locator("main")).to_contain_text("open the preview again")
    page.goto("/preview?filter=code:704")
    expect(page.get_by_role("heading", level=1)).to_have_text("Re-drive 1 letter?")


def test_the_same_act_elsewhere_keeps_its_canary_when_more_have_died(shop: Shop, enter: Enter) -> None:
    bury(shop, "705", 1)
    page = enter(Role.OPERATOR)
    page.goto("/preview?filter=code:705")
    texts = page.locator(".copy pre").all_inner_texts()
    assert len(texts) == 2
    for text in texts:
        assert "canary" not in text
        assert "rate" not in text


def test_the_id_of_another_tenants_operation_starts_nothing_and_leaves_no_row(
    shop: Shop, enter: Enter
) -> None:
    bury(shop, "706", 1)
    ana, rui = enter(Role.ADMIN), enter(Role.OPERATOR, "acme")
    shop.bury(ORDERS, [{"cause": "of globex", "code": "707"}], "globex")
    ana.goto("/preview?kind=discard&filter=code:707")
    ana.get_by_role("button", name="Discard 1 letter").click()
    ana.wait_for_url("**/operations/*")
    taken = ana.url.rsplit("/", 1)[1]
    rui.goto("/preview?filter=code:706")
    rui.eval_on_selector("form.stack [name=operation]", f"field => {{ field.value = '{taken}' }}")
    with rui.expect_navigation() as answered:
        rui.get_by_role("button", name="Re-drive 1 letter").click()
    assert answered.value.status == 404
    ana.goto(f"/audit?action={taken}")
    expect(ana.locator("tbody")).to_contain_text("admin key")
    expect(ana.locator("tbody")).not_to_contain_text("operator key")


def test_those_that_died_again_are_seen_although_their_filter_has_an_or(shop: Shop, enter: Enter) -> None:
    bury(shop, "708", 1)
    bury(shop, "709", 1)
    page = enter(Role.OPERATOR)
    page.goto("/preview?filter=code:708 OR code:709")
    page.get_by_role("button", name="Re-drive 2 letters").click()
    page.get_by_role("link", name="See them").click()
    expect(page.locator("[data-row]")).to_have_count(2)
