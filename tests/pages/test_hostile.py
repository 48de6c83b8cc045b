"""Attacker text is everywhere here: in no field that a page shows does any of it run, load or break out."""

from __future__ import annotations

import json
from datetime import timedelta
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from redrive.core.lanes import LaneState
from redrive.mail.writing.mail import Mail
from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from redrive.office.groups import GroupBy
from tests.pages.conftest import Enter, press
from tests.pages.hostile import hostile_strings
from tests.pages.shop import INVOICES, ORDERS, Shop

pytestmark = pytest.mark.timeout(120)
COUNT = 500

# What a page must not have, wherever it came from: an element or attribute that a text could have made.
SIGNS = """() => [
  ...document.querySelectorAll("script:not([type=module]), object, embed, base, style, math"),
  ...document.querySelectorAll("form[action*=evil]"),
  ...document.querySelectorAll("link[href*=evil], meta[content*=evil], img:not([src^='/static/'])"),
  ...document.querySelectorAll("a[href^='javascript:' i], iframe:not([sandbox=''])"),
  ...[...document.querySelectorAll("*")].filter(
    (one) => one.getAttributeNames().some((name) => name.startsWith("on")),
  ),
].map((one) => one.outerHTML)"""


@pytest.fixture(scope="module")
def letters(shop: Shop) -> list[str]:
    """500 letters with hostile text as their failure, code, payload's names and values, and headers."""
    texts = hostile_strings(COUNT)
    payloads = [
        {"cause": text, "code": text[:60], text[:80] or "-": text, "nested": [{"deep": text}]}
        for text in texts
    ]
    ids: list[str] = []
    for start in range(0, COUNT, 100):
        ids += shop.bury(ORDERS, payloads[start : start + 100])
    return ids


@pytest.fixture(scope="module")
def said(shop: Shop, letters: list[str]) -> None:
    """The same in what people write: names of keys and views, notes, silences, and who they say they are; in
    mails that arrived and that did not; and in messages that wait."""

    async def say() -> None:
        for text in hostile_strings(20):
            acting = shop.office.acting(Actor(text[:100] or "-", f"<b>{text[:50]}</b>"), reveals=True)
            await Access(shop.store, Actor("test", "test")).create(Role.VIEWER, None, text[:100])
            await acting.groups.note(GroupBy.CODE, text[:60], text)
            await acting.saved_views.save(text[:60], json.dumps(text))
            await acting.alerts.silence("dlq_share", text[:60], timedelta(hours=1), text)
        await shop.store.set_queue(INVOICES, LaneState.PAUSED)

    shop.do(say())
    subjects = [text for text in hostile_strings(20) if text.isprintable()]
    for text in subjects[:10]:
        to = ["ok@example.org", "reply-550-5.1.1@example.org"]
        shop.send(Mail(from_="shop@shop.example", to=to, subject=text, text=text, html=text))
    shop.wait_dead(COUNT + len(subjects[:10]))
    for text in hostile_strings(20):
        shop.do(shop.app.submit(INVOICES, {text: text}, dedupe="".join(filter(str.isprintable, text)) or "-"))


def check(page: Page, path: str) -> None:
    page.goto(path)
    assert page.evaluate(SIGNS) == [], path
    assert page.title().endswith("Redrive"), path


@pytest.mark.usefixtures("said")
def test_lists_show_hostile_text_and_nothing_runs(shop: Shop, enter: Enter) -> None:
    page = enter(Role.ADMIN)
    for path in (
        *("/", "/letters", "/letters?by=code", "/letters?view=ages", "/operations", "/preview"),
        *("/messages", "/messages?state=done", "/queues", f"/queues/{ORDERS}", "/tenants", "/tenants/acme"),
        *("/mail", "/alerts", "/audit", "/keys", "/sql"),
    ):
        check(page, path)
    page.goto("/messages")
    check(page, f"{page.locator('[data-row] a').first.get_attribute('href')}?reveal=true")
    page.goto("/mail")
    check(page, str(page.locator("a[href*='/mail/inbox/']").first.get_attribute("href")))
    page.goto("/letters?view=letters&filter=queue:email:send")
    check(page, f"{page.locator('[data-row] a').first.get_attribute('href')}?reveal=true")
    page.goto("/sql")
    page.get_by_label("Statement").fill("SELECT lastFailureReason, lastFailureCode, originalData FROM dlq")
    press(page, "Run")
    expect(page.locator("tbody")).to_be_visible()
    assert page.evaluate(SIGNS) == []
    path = "/letters?view=letters"
    for _ in range(COUNT // 50):
        check(page, path)
        following = page.locator("a[rel=next]")
        if following.count() == 0:
            break
        path = str(following.get_attribute("href"))


def test_letters_and_groups_of_hostile_text_show_it_and_nothing_runs(
    letters: list[str], enter: Enter
) -> None:
    page = enter(Role.ADMIN)
    texts = hostile_strings(COUNT)
    for number in (*range(16), *range(16, COUNT, 80)):
        check(page, f"/letters/{letters[number]}?reveal=true")
        assert page.locator("pre").first.text_content() is not None
    for text in texts[:8]:
        check(page, f"/group?by=code&key={quote(text[:60])}")
        check(page, f"/letters?filter={quote(json.dumps(text))}&view=letters")
        check(page, f"/preview?filter={quote('code:' + json.dumps(text[:60]))}")
    check(page, f"/letters/{letters[1]}/edit")


def test_the_shown_text_is_the_text(letters: list[str], enter: Enter) -> None:
    page = enter(Role.ADMIN)
    page.goto(f"/letters/{letters[0]}?reveal=true")
    assert page.locator("h1").inner_text() == "<script>alert(1)</script>"


def test_addresses_with_hostile_parts_are_answered_with_a_page(enter: Enter) -> None:
    page = enter(Role.ADMIN)
    for text in hostile_strings(8):
        named = quote(text, safe="")
        for path in (f"/letters/{named}", f"/operations/{named}", f"/sign-in?next={named}"):
            page.goto(path)
            assert page.evaluate(SIGNS) == [], path
