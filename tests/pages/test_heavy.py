"""Large and odd payloads: their pages answer, soon, and nobody else waits for them."""

from __future__ import annotations

import itertools
import json
import random
import re
import string
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest

from redrive.core.lanes import LaneState
from redrive.mail.writing.mail import Mail
from redrive.office.access import Role
from tests.conformance.makers import entry
from tests.pages.forms import SAME_ORIGIN, form_token, sign_in_now
from tests.pages.shop import ORDERS, Shop

pytestmark = pytest.mark.timeout(120)
SOON_S = 5.0
"""Of the processor's time, as all that is measured here: what others do with this machine is not counted."""
ODD_CHARSETS = ("idna", "undefined", "punycode", "a\0b", "raw_unicode_escape", "hex", "no-such")


@pytest.fixture(scope="module", autouse=True)
def _paused(shop: Shop) -> None:
    """Mails stay where they are read."""

    shop.send(Mail(from_="a@acme.example", to="b@x.example", subject="s", text="t"))
    shop.do(shop.store.set_queue("email:send", LaneState.PAUSED))


@pytest.fixture
def client(shop: Shop) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shop.url, timeout=60) as opened:
        sign_in_now(opened, shop.key(Role.OPERATOR))
        yield opened


def longest_wait_s(shop: Shop, answer: Future[httpx.Response]) -> float:
    """How long others waited for an answer, at most, until this one was there."""
    worst = 0.0
    with httpx.Client(base_url=shop.url, timeout=60) as other:
        while not answer.done():
            began = time.process_time()
            assert other.get("/health/live").status_code == 200
            worst = max(worst, time.process_time() - began)
    return worst


def answered(shop: Shop, ask: Callable[[], httpx.Response]) -> httpx.Response:
    """An answer that came soon, while others were answered soon."""
    with ThreadPoolExecutor(1) as pool:
        began = time.process_time()
        answer = pool.submit(ask)
        assert longest_wait_s(shop, answer) < 1.0
        assert time.process_time() - began < SOON_S
        return answer.result()


def waiting(shop: Shop, body: bytes) -> str:
    """The id of a message that waits, of a queue without a handler."""
    made = entry(shop.store, queue="unserved", body=body)
    shop.do(shop.store.append([[made]]))
    return made.message.id


def mail_message(shop: Shop, content: str) -> str:
    body = {"from": "a@acme.example", "to": "b@x.example", "messageId": "<m@x>", "content": content}
    made = entry(shop.store, queue="email:send", body=json.dumps(body).encode())
    shop.do(shop.store.append([[made]]))
    return made.message.id


def headers_of(page: httpx.Response) -> int:
    return page.text.split("<pre>")[0].count("<dt>")


def test_a_mail_of_6500_different_headers_shows_the_first_hundred(shop: Shop, client: httpx.Client) -> None:
    names = itertools.islice(itertools.product(string.ascii_lowercase + string.digits, repeat=3), 6_500)
    mail = Mail(
        from_="a@acme.example",
        to="b@x.example",
        subject="s",
        text="t",
        headers={f"x{''.join(one)}": "1" for one in names},
    )
    message = shop.send(mail)
    page = answered(shop, lambda: client.get(f"/messages/{message}?reveal=true"))
    assert (page.status_code, headers_of(page)) == (200, 100)


def test_a_mail_of_5000_equal_headers_shows_the_first_hundred(shop: Shop, client: httpx.Client) -> None:
    message = mail_message(shop, "X-A: b\r\n" * 5_000 + "\r\nhello there")
    page = answered(shop, lambda: client.get(f"/messages/{message}?reveal=true"))
    assert (page.status_code, headers_of(page)) == (200, 100)
    assert "hello there" in page.text


@pytest.mark.parametrize(
    "content",
    [
        "To: " + "a@b.example, " * 30_000 + "\r\n\r\nhello there",
        "Content-Type: " + "(" * 50_000 + "\r\n\r\nhello there",
        "Subject: " + "=?utf-8?q?a?= " * 30_000 + "\r\n\r\nhello there",
    ],
)
def test_a_mail_with_an_endless_header_is_shown(shop: Shop, client: httpx.Client, content: str) -> None:
    message = mail_message(shop, content)
    page = answered(shop, lambda: client.get(f"/messages/{message}?reveal=true"))
    assert page.status_code == 200


@pytest.mark.parametrize("depth", [25, 2_000])
def test_a_mail_of_parts_in_parts_is_shown(shop: Shop, client: httpx.Client, depth: int) -> None:
    parts = (f"Content-Type: multipart/mixed; boundary=b{one}\r\n\r\n--b{one}\r\n" for one in range(depth))
    message = mail_message(shop, "Subject: deep\r\n" + "".join(parts) + "\r\n" + "x\r\n" * 100_000)
    page = answered(shop, lambda: client.get(f"/messages/{message}?reveal=true"))
    assert (page.status_code, "<dd>deep</dd>" in page.text) == (200, True)


def test_a_mail_of_endless_parts_names_the_first_hundred(shop: Shop, client: httpx.Client) -> None:
    part = "--b\r\nContent-Disposition: attachment; filename=a.txt\r\n\r\nx\r\n"
    message = mail_message(shop, "Content-Type: multipart/mixed; boundary=b\r\n\r\n" + part * 10_000)
    page = answered(shop, lambda: client.get(f"/messages/{message}?reveal=true"))
    assert (page.status_code, page.text.count("a.txt")) == (200, 100)


@pytest.mark.parametrize("charset", ODD_CHARSETS)
def test_a_mail_in_an_odd_charset_is_read_and_downloaded(
    shop: Shop, client: httpx.Client, charset: str
) -> None:
    kind = f'Content-Type: text/plain; charset="{charset}"'
    message = mail_message(shop, f"Subject: odd\r\n{kind}\r\n\r\nhello \\ud800 there é")
    page = client.get(f"/messages/{message}?reveal=true")
    assert (page.status_code, "hello" in page.text) == (200, True)
    raw = client.get(f"/letters/{message}/raw")
    assert (raw.status_code, kind.encode() in raw.content) == (200, True)


def test_the_html_of_a_mail_in_an_odd_charset_is_framed(shop: Shop, client: httpx.Client) -> None:
    message = mail_message(shop, 'Content-Type: text/html; charset="idna"\r\n\r\n<p>hello there')
    frame = client.get(f"/letters/{message}/frame")
    assert (frame.status_code, "hello there" in frame.text) == (200, True)


def test_a_wide_and_deep_payload_is_cut_on_its_page_and_whole_in_its_download(
    shop: Shop, client: httpx.Client
) -> None:
    document: object = [1] * 100_000
    for _ in range(900):
        document = [document]
    message = waiting(shop, json.dumps(document).encode())
    page = answered(shop, lambda: client.get(f"/messages/{message}?reveal=true"))
    assert (page.status_code, len(page.text) < 300_000) == (200, True)
    assert "download it to read all" in page.text
    raw = client.get(f"/letters/{message}/raw")
    assert json.loads(raw.content) == document
    assert len(raw.content) < 1_000_000


def test_half_a_character_in_a_payload_is_no_error(shop: Shop, client: httpx.Client) -> None:
    message = waiting(shop, b'{"name": "\\ud800"}')
    for path in (f"/messages/{message}", f"/messages/{message}?reveal=true", f"/letters/{message}/raw"):
        assert client.get(path).status_code == 200
    key = {"Authorization": f"Bearer {shop.key(Role.OPERATOR)}"}
    assert (
        httpx.get(f"{shop.url}/admin/dlq/messages/{message}?reveal=true", headers=key, timeout=60).status_code
        == 200
    )


def lines(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)  # noqa: S311 - the same lines each time
    return ["".join(draw.choices("abcde ", k=60)) for _ in range(count)]


@pytest.mark.parametrize("count", [400, 5_000])
def test_a_review_of_many_changed_lines_is_shown_soon(shop: Shop, client: httpx.Client, count: int) -> None:
    (letter,) = shop.bury(ORDERS, [{"cause": "heavy", "lines": lines(1, count)}])
    page = client.get(f"/letters/{letter}/edit")
    form = {
        "token": form_token(page),
        "generation": re.search(r'name="generation" value="(\d+)"', page.text)[1],  # type: ignore[index]
        "payload": json.dumps({"cause": "heavy", "lines": lines(2, count)}, indent=2),
        "verb": "review",
    }
    review = answered(shop, lambda: client.post(f"/letters/{letter}/edit", data=form, headers=SAME_ORIGIN))
    assert (review.status_code, 'class="gone"' in review.text, 'class="new"' in review.text) == (
        200,
        True,
        True,
    )
    assert ("more lines changed" in review.text) == (count == 5_000)


def test_a_stranger_sends_no_large_form(shop: Shop) -> None:
    with httpx.Client(base_url=shop.url, timeout=60) as stranger:
        data = {"token": form_token(stranger.get("/sign-in")), "key": "x" * 200_000}
        assert stranger.post("/sign-in", data=data, headers=SAME_ORIGIN).status_code == 413
