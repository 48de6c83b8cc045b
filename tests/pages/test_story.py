"""What people do with dead letters by clicks, by keys and without JavaScript."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from redrive.office.access import Role
from tests.pages.conftest import Enter, enter_key, leave, make_context, press
from tests.pages.shop import ORDERS, Shop, shop_in_thread
from tests.servers import reserved_port

pytestmark = pytest.mark.timeout(120)


def test_sending_a_preview_twice_starts_one_operation(shop: Shop, enter: Enter) -> None:
    (letter,) = shop.bury(ORDERS, [{"cause": "twice"}])
    shop.fixed.add("twice")
    page = enter(Role.OPERATOR)
    page.goto("/operations")
    before = page.locator("tbody tr").count()
    page.goto(f"/preview?ids={letter}")
    names = ("token", "kind", "operation", "ids", "canary", "rate", "as_of", "counted")
    form = {name: page.locator(f"form.stack [name={name}]").input_value() for name in names}
    answers = [page.request.post("/operations", form=form, max_redirects=0) for _ in range(2)]
    assert [one.status for one in answers] == [303, 303]
    assert answers[0].headers["location"] == answers[1].headers["location"]
    page.goto("/operations")
    expect(page.locator("tbody tr")).to_have_count(before + 1)


def test_a_canary_that_fails_halts_and_a_person_decides(shop: Shop, enter: Enter) -> None:
    shop.bury(ORDERS, [{"cause": "still broken", "code": "599"} for _ in range(22)])
    page = enter(Role.OPERATOR)
    page.goto("/preview?filter=code:599")
    page.get_by_label("Canary").fill("4")
    page.get_by_label("Rate").fill("0/s")
    page.get_by_role("button", name="Re-drive 22 letters").click()
    expect(page.get_by_role("alert")).to_contain_text("rate 0/s lets nothing through")
    expect(page.get_by_label("Canary")).to_have_value("4")
    page.get_by_label("Rate").fill("20/s")
    page.get_by_role("button", name="Re-drive 22 letters").click()
    expect(page.locator(".badge", has_text="halted")).to_be_visible()
    expect(page.locator("main")).to_contain_text("failed again")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".badge", has_text="cancelled")).to_be_visible()


def test_two_people_see_the_same_and_one_pauses_what_the_other_started(shop: Shop, enter: Enter) -> None:
    shop.bury(ORDERS, [{"cause": "slow lane", "code": "510"} for _ in range(10)])
    shop.fixed.add("slow lane")
    ana, rui = enter(Role.OPERATOR), enter(Role.ADMIN)
    ana.goto("/preview?filter=code:510")
    ana.get_by_label("Rate").fill("1/h")
    ana.get_by_role("button", name="Re-drive 10 letters").click()
    ana.wait_for_url("**/operations/*")
    rui.goto(ana.url)
    rui.get_by_role("button", name="Pause").click()
    expect(rui.locator(".badge", has_text="paused")).to_be_visible()
    expect(ana.locator(".badge", has_text="paused")).to_be_visible()
    ana.get_by_role("button", name="Resume").click()
    expect(rui.locator(".badge", has_text="paused")).to_have_count(0)
    ana.get_by_role("button", name="Cancel").click()
    expect(rui.locator(".badge", has_text="cancelled")).to_be_visible()


def test_a_letter_is_edited_with_its_changes_shown_first(shop: Shop, enter: Enter) -> None:
    (letter,) = shop.bury(ORDERS, [{"order": 7, "cause": "wrong address", "card": "4111 1111 1111 1111"}])
    page = enter(Role.OPERATOR)
    page.goto(f"/letters/{letter}")
    page.get_by_role("link", name="Edit and re-drive").click()
    text = page.get_by_label("New payload").input_value()
    page.get_by_label("New payload").fill(text.replace('"wrong address"', "null"))
    page.get_by_role("button", name="Show what changes").click()
    expect(page.locator(".diff .gone")).to_contain_text("wrong address")
    expect(page.locator(".diff .new")).to_contain_text("null")
    page.get_by_role("button", name="Re-drive with this payload").click()
    expect(page.locator(".badge", has_text="finished")).to_be_visible()
    page.goto(f"/letters/{letter}")
    expect(page.locator("main")).to_contain_text("Replaced by")


def test_what_is_not_json_is_refused_beside_the_text(shop: Shop, enter: Enter) -> None:
    (letter,) = shop.bury(ORDERS, [{"cause": "to edit"}])
    page = enter(Role.OPERATOR)
    page.goto(f"/letters/{letter}/edit")
    page.get_by_label("New payload").fill("{nonsense")
    page.get_by_role("button", name="Show what changes").click()
    expect(page.get_by_role("alert")).to_contain_text("This is not JSON")
    assert page.get_by_label("New payload").input_value() == "{nonsense"


def test_a_group_is_noted_resolved_and_opened_again(shop: Shop, enter: Enter) -> None:
    shop.bury(ORDERS, [{"cause": "known to us", "code": "418"}])
    page = enter(Role.OPERATOR)
    page.goto("/letters?by=code")
    page.get_by_role("link", name="418", exact=True).click()
    page.get_by_label("Note").fill("the carrier knows")
    page.get_by_role("button", name="Add note").click()
    expect(page.locator(".note")).to_contain_text("the carrier knows")
    page.get_by_role("button", name="Resolve").click()
    expect(page.locator(".badge", has_text="resolved")).to_be_visible()
    page.get_by_role("button", name="Reopen").click()
    expect(page.locator(".badge", has_text="open")).to_be_visible()


def test_a_view_is_saved_used_and_removed(shop: Shop, enter: Enter) -> None:
    shop.bury(ORDERS, [{"cause": "for a view", "code": "455"}])
    page = enter(Role.OPERATOR)
    page.goto("/letters?filter=code:455&view=letters")
    page.get_by_label("Name of this view").fill("the 455s")
    press(page, "Save view")
    page.goto("/letters")
    page.get_by_role("link", name="the 455s").click()
    expect(page.locator("input[type=search]")).to_have_value("code:455")
    page.get_by_role("button", name="Remove the view the 455s").click()
    expect(page.get_by_role("link", name="the 455s")).to_have_count(0)


def test_the_filter_suggests_names_and_values(shop: Shop, enter: Enter) -> None:
    shop.bury(ORDERS, [{"cause": "suggested", "code": "477"}])
    page = enter(Role.VIEWER)
    page.goto("/letters")
    page.locator("input[type=search]").press_sequentially("tenant:acme code:47")
    option = page.locator("#suggestions option")
    expect(option).to_have_count(1)
    expect(option).to_have_attribute("value", "tenant:acme code:477")


def test_a_filter_that_cannot_be_read_says_where_and_keeps_its_text(shop: Shop, enter: Enter) -> None:
    page = enter(Role.VIEWER)
    page.goto("/letters?filter=code:1 OR (")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator("input[type=search]")).to_have_value("code:1 OR (")


def test_keys_move_and_redrive(shop: Shop, enter: Enter) -> None:
    shop.bury(ORDERS, [{"cause": "by keys", "code": "466"} for _ in range(3)])
    page = enter(Role.OPERATOR)
    page.goto("/letters?filter=code:466 tenant:acme&by=code")
    page.keyboard.press("j")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", level=1)).to_have_text("Re-drive 3 letters?")
    expect(page.locator(".head code")).to_have_text("(code:466 tenant:acme) code:466")
    page.goto("/letters?view=letters&filter=code:466")
    page.keyboard.press("r")
    page.keyboard.press("/")
    expect(page.locator("input[type=search]")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("[data-row]").nth(1).locator("a").first).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator("[data-row]").first.locator("a").first).to_be_focused()
    page.keyboard.press("r")
    expect(page.get_by_role("heading", level=1)).to_have_text("Re-drive 1 letter?")


def test_without_javascript_letters_are_read_and_redriven(shop: Shop, enter: Enter) -> None:
    shop.bury(ORDERS, [{"cause": "plain", "code": "433"} for _ in range(2)])
    shop.fixed.add("plain")
    page = enter(Role.OPERATOR, java_script_enabled=False)
    page.goto("/letters?view=letters&filter=code:433")
    page.get_by_role("button", name="Discard ticked").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing is ticked")
    page.goto("/letters?view=letters&filter=code:433")
    for box in page.locator("input[name=ids]").all():
        box.check()
    page.get_by_role("button", name="Re-drive ticked").click()
    page.get_by_role("button", name="Re-drive 2 letters").click()
    expect(page.get_by_text("All 2 were delivered.")).to_be_visible()


def test_a_viewer_is_shown_nothing_to_do(shop: Shop, enter: Enter) -> None:
    (letter,) = shop.bury(ORDERS, [{"cause": "only to look at"}])
    page = enter(Role.VIEWER)
    for path in ("/letters?view=letters", f"/letters/{letter}", "/operations"):
        page.goto(path)
        assert page.locator("main button, main .button, main [data-redrive]").all_inner_texts() in (
            [],
            ["Find"],
        )
        assert page.get_by_text("Reveal").count() == 0
        assert page.locator("main form[method=post]").count() == 0
    assert page.goto(f"/preview?ids={letter}").status == 403  # type: ignore[union-attr]
    assert page.goto(f"/letters/{letter}?reveal=true").status == 403  # type: ignore[union-attr]


def test_an_operation_goes_on_after_the_server_and_its_worker_restarted(
    browser: Browser, tmp_path: Path
) -> None:
    with reserved_port() as port:
        _restart(browser, tmp_path, f"127.0.0.1:{port}")


def _restart(browser: Browser, folder: Path, listen: str) -> None:
    with shop_in_thread(folder, listen) as shop:
        shop.bury(ORDERS, [{"cause": "before the restart", "code": "444"} for _ in range(30)])
        key = shop.key(Role.OPERATOR)
        page = make_context(browser, shop.url).new_page()
        enter_key(page, key)
        page.goto("/preview?filter=code:444")
        page.get_by_label("Rate").fill("10/s")
        page.get_by_label("Canary").fill("0")
        page.get_by_role("button", name="Re-drive 30 letters").click()
        page.wait_for_url("**/operations/*")
    with shop_in_thread(folder, listen) as shop:
        shop.fixed.add("before the restart")
        page.reload()
        expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "30")
    leave(page.context)
