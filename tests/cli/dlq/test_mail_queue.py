"""What goes into the mail gateway's queue by a re-drive or an edit is a mail."""

from __future__ import annotations

import json

import pytest

from redrive.mail.stored import QUEUE, Stored, encode
from tests.cli.conftest import Shop

MAIL = Stored(from_="shop@example.com", to=["ann@example.org"], message_id="<1@example.com>", content="Hi")


def test_what_is_no_mail_does_not_go_to_the_mail_gateway(shop: Shop) -> None:
    order = shop.bury(queue="orders")
    shop.send(1, queue=QUEUE)
    for flags in ((), ("--dry-run",)):
        refused = shop("dlq", "redrive", order, "--to", QUEUE, *flags)
        assert (refused.code, refused.out) == (1, "")
        assert f"{order} cannot go to {QUEUE}: it is not a mail" in refused.error
    assert shop.ok("show", order)["state"] == "dead"
    assert shop.ok("ops", "list")["operations"] == []


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"order": 7}, "it is not a mail"),
        ({"from": "a@example.com", "to": [], "messageId": "<1>", "content": "Hi"}, "to nobody"),
        ({"from": "a@example.com", "to": ["b@example.com"], "messageId": "<1>"}, "without content"),
    ],
)
def test_an_edited_mail_is_still_a_mail(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, payload: object, said: str
) -> None:
    monkeypatch.setenv("REDRIVE_OFFICE_EDIT", "true")
    order, mail = shop.bury(queue="orders"), shop.bury(queue=QUEUE)
    for asked in ((order, json.dumps(payload), "--to", QUEUE), (mail, json.dumps(payload))):
        refused = shop("dlq", "edit", *asked)
        assert refused.code == 1
        assert said in refused.error
        assert shop.ok("show", asked[0])["state"] == "dead"


def test_a_letter_that_is_a_mail_may_go_there(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_OFFICE_EDIT", "true")
    letter = shop.bury(queue="orders")
    shop.send(1, queue=QUEUE)
    body = encode(MAIL).decode()
    assert shop.ok("dlq", "edit", letter, body, "--to", QUEUE)["operation"]["moved"] == 1
