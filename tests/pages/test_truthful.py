"""What an open page says stays true: times go on, a server that is gone is said; ways back and out."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from redrive.office.access import Role
from tests.pages.conftest import PATIENCE_MS, Enter, enter_key, leave, make_context
from tests.pages.forms import sign_in_now
from tests.pages.shop import INVOICES, ORDERS, Shop

HTML = {"Accept": "text/html,application/xhtml+xml"}


def test_how_long_ago_it_was_goes_on_while_a_page_is_open(shop: Shop, enter: Enter) -> None:
    (letter,) = shop.bury(ORDERS, [{"cause": "it ages"}])
    page = enter(Role.VIEWER)
    page.clock.install()
    page.goto(f"/letters/{letter}")
    died = page.locator(".life time").last
    page.clock.fast_forward("03:00:30")
    expect(died).to_have_text("3 h ago")
    page.clock.fast_forward("48:00:00")
    expect(died).to_have_text("2 d ago")


def test_they_go_on_in_portuguese_too(shop: Shop, enter: Enter) -> None:
    (letter,) = shop.bury(ORDERS, [{"cause": "it ages in another language"}])
    page = enter(Role.VIEWER, locale="pt-BR")
    page.clock.install()
    page.goto(f"/letters/{letter}")
    page.clock.fast_forward("03:00:30")
    expect(page.locator(".life time").last).to_have_text("há 3 h")
    expect(page.locator(".pairs time").first).to_have_text("em 20 h")


def test_a_page_whose_server_is_gone_says_so_and_takes_it_back(browser: Browser, shop: Shop) -> None:
    context = make_context(browser, shop.url)
    page = context.new_page()
    _sign_in(page, shop)
    page.clock.install()
    page.route("**/live/**", lambda route: route.abort())
    page.goto("/queues")
    note = page.locator("[data-lost]")
    expect(note).to_be_hidden()
    page.route("**/*", lambda route: route.abort())
    page.clock.fast_forward(60_000)
    expect(note).to_contain_text("The server does not answer")
    page.unroute_all()
    page.clock.fast_forward(60_000)
    expect(note).to_be_hidden()
    leave(context)


def test_a_stream_that_was_refused_is_asked_for_again(browser: Browser, shop: Shop) -> None:
    context = make_context(browser, shop.url)
    page = context.new_page()
    _sign_in(page, shop)
    page.clock.install()
    page.route("**/live/**", lambda route: route.fulfill(status=429))
    with page.expect_response("**/live/queues") as refused:
        page.goto("/queues")
    assert refused.value.status == 429
    page.unroute_all()
    with page.expect_response("**/live/queues") as opened:
        page.clock.run_for(30_000)
    assert opened.value.status == 200
    leave(context)


@pytest.mark.parametrize("path", ["/nowhere", "/letter", "/v2/emails"])
def test_a_browser_at_an_address_that_nothing_has_is_shown_a_page(shop: Shop, path: str) -> None:
    with httpx.Client(base_url=shop.url, timeout=60) as client:
        stranger = client.get(path, headers=HTML)
        assert (stranger.status_code, stranger.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "no page has this address" in stranger.text
        assert "/letters" not in stranger.text
        sign_in_now(client, shop.key(Role.VIEWER))
        assert 'href="/letters"' in client.get(path, headers=HTML).text
        program = client.get(path, headers={"Accept": "*/*"})
        assert program.headers["content-type"] == "application/problem+json"
        assert program.status_code == 404


def test_a_tenant_in_the_table_of_ages_is_looked_at_within_the_filter(shop: Shop, enter: Enter) -> None:
    shop.bury(
        ORDERS, [{"cause": "counted among the young", "code": "418"}, {"cause": "of another code"}], "globex"
    )
    page = enter(Role.VIEWER)
    page.goto("/letters?view=ages&filter=code:418")
    page.get_by_role("link", name="globex").click()
    expect(page.get_by_role("heading", name="1 letter")).to_be_visible()
    expect(page.get_by_role("link", name="counted among the young")).to_be_visible()


def test_discarded_letters_are_brought_back_from_the_page_of_their_operation(
    shop: Shop, enter: Enter
) -> None:
    shop.bury(ORDERS, [{"cause": "discarded too soon"}] * 3)
    page = enter(Role.OPERATOR)
    page.goto('/preview?kind=discard&filter="discarded+too+soon"')
    page.get_by_role("button", name="Discard 3 letters").click()
    page.get_by_role("link", name="Bring them back").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Bring 3 discarded letters back?")
    page.get_by_role("button", name="Bring 3 back").click()
    expect(page.locator("[data-part=progress]")).to_contain_text("3 of 3")
    page.goto('/letters?view=letters&filter="discarded+too+soon"')
    expect(page.get_by_role("heading", name="3 letters")).to_be_visible()


def test_one_discarded_letter_is_brought_back_from_its_page(shop: Shop, enter: Enter) -> None:
    (letter,) = shop.bury(ORDERS, [{"cause": "one discarded"}])
    page = enter(Role.OPERATOR)
    page.goto(f"/preview?kind=discard&ids={letter}")
    page.get_by_role("button", name="Discard 1 letter").click()
    expect(page.locator("[data-part=progress]")).to_contain_text("1 of 1")
    page.goto(f"/messages/{letter}")
    page.get_by_role("link", name="Bring it back").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Bring 1 discarded letter back?")


def _sign_in(page: Page, shop: Shop) -> None:
    page.set_default_timeout(PATIENCE_MS)
    enter_key(page, shop.key(Role.VIEWER))
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_a_tenant_of_two_queues_is_paused_and_resumed_everywhere_as_far_as_there_is_something_to(
    shop: Shop, enter: Enter
) -> None:
    shop.bury(ORDERS, [{"cause": "first queue"}], "umbrella")
    page = enter(Role.OPERATOR)
    pause = page.get_by_role("button", name="Pause everywhere")
    resume = page.get_by_role("button", name="Resume everywhere")
    page.goto("/tenants/umbrella")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    expect(pause).to_be_hidden()
    shop.bury(INVOICES, [{"cause": "second queue"}], "umbrella")
    page.reload()
    expect(resume).to_be_hidden()
    pause.click()
    expect(resume).to_be_visible()
    expect(pause).to_be_hidden()
    page.goto(f"/tenants?queue={INVOICES}")
    expect(page.locator("[data-row]", has_text="umbrella")).to_contain_text("paused")
    page.goto("/tenants/umbrella")
    resume.click()
    expect(resume).to_be_hidden()


def test_groups_by_reason_are_called_as_the_language_has_it(shop: Shop, enter: Enter) -> None:
    shop.bury(ORDERS, [{"cause": "named by its reason"}])
    page = enter(Role.VIEWER, locale="pt-BR")
    page.goto("/letters?by=reason")
    page.get_by_role("link", name="falha permanente", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("falha permanente")
    page.goto("/group?by=reason&key=nothing")
    expect(page.get_by_role("heading", level=1)).to_have_text("nothing")
