"""The other pages: messages, queues, tenants, mail, audit, SQL, keys."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from redrive.core.lifecycle import State
from redrive.mail.writing.mail import Mail
from redrive.office.access import Role
from tests.pages.conftest import Enter, press
from tests.pages.shop import ORDERS, Shop
from tests.waiting import wait_until


def test_a_queue_is_paused_and_resumed_and_its_waiting_message_says_why(shop: Shop, enter: Enter) -> None:
    shop.submit(ORDERS, [{"order": 1}])
    page = enter(Role.OPERATOR)
    page.goto(f"/queues/{ORDERS}")
    press(page, "Pause")
    expect(page.locator(".badge", has_text="paused")).to_be_visible()
    (waiting,) = shop.submit(ORDERS, [{"order": 2}])
    page.goto("/messages")
    page.get_by_role("link", name=waiting).click()
    expect(page.locator(".head")).to_contain_text("paused")
    page.goto("/")
    expect(page.locator(".status")).to_contain_text(f"{ORDERS} is paused")
    page.goto(f"/queues/{ORDERS}")
    press(page, "Resume")
    expect(page.locator(".badge", has_text="paused")).to_have_count(0)


def test_a_waiting_message_is_cancelled(shop: Shop, enter: Enter) -> None:
    page = enter(Role.OPERATOR)
    page.goto(f"/queues/{ORDERS}")
    press(page, "Pause")
    (waiting,) = shop.submit(ORDERS, [{"order": 3}])
    page.goto(f"/messages/{waiting}")
    page.get_by_role("button", name="Cancel it").click()
    expect(page.locator("h1")).to_have_text("removed")
    page.goto("/messages?state=removed")
    expect(page.get_by_role("link", name=waiting)).to_be_visible()
    page.goto(f"/queues/{ORDERS}")
    press(page, "Resume")


def test_a_button_that_no_page_has_does_nothing(shop: Shop, enter: Enter) -> None:
    shop.submit(ORDERS, [{"order": 5}])
    page = enter(Role.OPERATOR)
    page.goto(f"/queues/{ORDERS}")
    press(page, "Pause")
    (waiting,) = shop.submit(ORDERS, [{"order": 6}])
    page.goto(f"/messages/{waiting}")
    page.eval_on_selector("button[value=run_now]", "button => { button.value = 'forget' }")
    page.get_by_role("button", name="Run now").click()
    expect(page.locator("main")).to_contain_text("nothing was done")
    page.goto("/messages")
    expect(page.get_by_role("link", name=waiting)).to_be_visible()
    page.goto(f"/queues/{ORDERS}")
    press(page, "Resume")


def test_a_tenants_weight_is_set_and_seen(shop: Shop, enter: Enter) -> None:
    shop.submit(ORDERS, [{"order": 4}], "globex")
    page = enter(Role.OPERATOR)
    page.goto("/tenants/globex")
    page.get_by_label("Weight").fill("3")
    press(page, "Save")
    expect(page.get_by_label("Weight")).to_have_value("3")
    page.goto(f"/tenants?queue={ORDERS}")
    expect(page.locator("tr", has_text="globex").locator("td").nth(2)).to_have_text("3")


def test_sql_answers_and_says_what_is_wrong(shop: Shop, enter: Enter) -> None:
    shop.bury(ORDERS, [{"cause": "for sql", "code": "488"}])
    page = enter(Role.ADMIN)
    page.goto("/sql")
    page.get_by_role("link", name="by-code").click()
    page.get_by_role("button", name="Run").click()
    expect(page.locator("tbody")).to_contain_text("488")
    page.get_by_label("Statement").fill("DELETE FROM dlq")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Statement")).to_have_value("DELETE FROM dlq")


def test_a_key_is_made_shown_once_and_revoked_and_the_audit_has_it(shop: Shop, enter: Enter) -> None:
    page = enter(Role.ADMIN)
    page.goto("/keys")
    page.get_by_label("Name").fill("for rui")
    press(page, "Make a key")
    expect(page.get_by_role("status")).to_contain_text(re.compile(r"rdk_[0-9a-f]{12}_"))
    page.goto("/keys")
    expect(page.locator("main")).not_to_contain_text("rdk_")
    page.get_by_role("link", name="Revoke for rui").click()
    page.get_by_role("button", name="Revoke for rui").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Keys")
    expect(page.get_by_text("for rui")).to_have_count(0)
    page.goto("/audit")
    expect(page.locator("tbody")).to_contain_text("revoke key")
    page.get_by_role("link", name="Verify the chain").click()
    expect(page.get_by_role("status")).to_contain_text("The audit is whole")


def test_revoking_a_key_asks_first_says_what_ends_and_works_without_javascript(
    shop: Shop, enter: Enter
) -> None:
    page = enter(Role.ADMIN, java_script_enabled=False)
    page.goto("/keys")
    page.get_by_label("Name").fill("for eva")
    page.get_by_label("Tenant, or all").fill("acme")
    press(page, "Make a key")
    page.goto("/keys")
    page.get_by_role("link", name="Revoke for eva").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Revoke for eva?")
    expect(page.locator("dl")).to_contain_text("acme")
    expect(page.get_by_text("Nobody is signed in with it.")).to_be_visible()
    press(page, "Keep it", "link")
    press(page, "Revoke for eva", "link")
    asked_at = page.url
    press(page, "Revoke for eva")
    expect(page.get_by_text("for eva")).to_have_count(0)
    assert page.goto(asked_at).status == 404  # type: ignore[union-attr]


def test_who_revokes_the_key_they_are_signed_in_with_is_warned_in_their_language(
    shop: Shop, enter: Enter
) -> None:
    page = enter(Role.ADMIN, locale="pt-BR")
    page.goto("/keys")
    own = page.locator("tr", has_text="sua").locator("td.mono").last.inner_text()
    page.goto(f"/keys/{own}/revoke")
    expect(page.get_by_role("alert")).to_contain_text("Você entrou com esta chave")
    expect(page.get_by_role("button", name="Revogar")).to_be_visible()


def test_a_session_is_ended_from_the_page_and_its_owner_is_asked_to_sign_in(shop: Shop, enter: Enter) -> None:
    viewer, admin = enter(Role.VIEWER), enter(Role.ADMIN)
    admin.goto("/keys")
    row = admin.locator("tr", has=admin.get_by_role("button", name=re.compile("^End "))).filter(
        has_not_text="yours"
    )
    with admin.expect_navigation():
        row.first.get_by_role("button").click()
    viewer.goto("/")
    expect(viewer.get_by_role("heading", name="Sign in")).to_be_visible()


HOSTILE_HTML = (
    "<h2 id=seen>On its way</h2><script>alert(1)</script><img src=https://evil.example/x onerror=alert(1)>"
    "<link rel=stylesheet href=https://evil.example/x.css><form action=https://evil.example><button>x</button>"
)


def test_a_dead_mail_and_one_that_arrived_are_read_as_mail_and_their_html_runs_and_loads_nothing(
    shop: Shop, enter: Enter
) -> None:
    subject = "<b>Your order</b>"
    to = ["ana@customer.example", "reply-550-5.1.1@nobody.example"]
    mail = Mail(
        from_="shop@shop.example", to=to, subject=subject, text="It is on its way.", html=HOSTILE_HTML
    )
    shop.send(mail)
    page = enter(Role.ADMIN)
    asked: list[str] = []
    page.on("response", lambda response: asked.append(response.url))

    page.goto("/letters?view=letters&filter=queue:email:send")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.locator("[data-row] a").first.click()
    expect(page.locator("main")).not_to_contain_text("ana@customer.example")
    page.get_by_role("link", name="Reveal").click()
    expect(page.locator(".pairs").first).to_contain_text(subject)
    expect(page.locator(".pairs").first).to_contain_text("ana@customer.example")
    read_mail(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "message.eml"
    assert b"Subject: <b>Your order</b>" in Path(download.value.path()).read_bytes()

    page.goto("/mail")
    row = page.locator("tr", has_text="nobody.example")
    expect(row).to_contain_text("550")
    page.get_by_role("link", name=subject).click()
    read_mail(page)
    assert [url for url in asked if not url.startswith((shop.url, "data:", "blob:"))] == []


def test_who_reads_a_mail_of_the_inbox_is_in_the_audit(shop: Shop, enter: Enter) -> None:
    to = "eva@customer.example"
    mail = shop.send(Mail(from_="shop@shop.example", to=to, subject="Your code", text="424242"))

    async def arrived() -> bool:
        account = await shop.store.get(mail)
        return account is not None and account.state is State.DONE

    shop.do(wait_until(arrived, 30, "the mail arrived"))
    page = enter(Role.ADMIN)
    page.goto("/mail")
    page.get_by_role("link", name="Your code").click()
    expect(page.locator("pre").first).to_contain_text("424242")
    page.goto("/audit?verb=reveal")
    expect(page.locator("tbody")).to_contain_text('{"inbox":')


def read_mail(page: Page) -> None:
    """Its text beside the page, its HTML in a frame that is not ours to script."""
    expect(page.locator("pre").first).to_contain_text("It is on its way.")
    frame = page.locator("iframe")
    expect(frame).to_have_attribute("sandbox", "")
    inside = page.frame_locator("iframe")
    expect(inside.locator("#seen")).to_have_text("On its way")
    assert inside.locator("img").evaluate("image => image.naturalWidth") == 0


def test_portuguese_and_dark_are_chosen_with_the_switches(shop: Shop, enter: Enter) -> None:
    page = enter(Role.VIEWER)
    page.get_by_role("button", name="Português").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Visão geral")
    page.get_by_role("button", name="Escuro").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("body")).to_have_css("background-color", "rgb(20, 23, 28)")
