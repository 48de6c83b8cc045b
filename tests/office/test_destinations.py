"""Where mail did not arrive: all letters are counted, by the domain of the first recipient, and by code."""

from __future__ import annotations

import json

from redrive.core.settings import OfficeSettings
from redrive.core.store import Store
from redrive.office.destinations import Destinations
from redrive.office.index import Index
from tests.office.deaths import QUEUE, bury, letter
from tests.office.desks import ANA, make_office


def mail(*to: str) -> bytes:
    return json.dumps({"from": "shop@acme.example", "to": to, "messageId": "1"}).encode()


def destinations(store: Store, index: Index, tenant: str | None = None, mask: str = "") -> Destinations:
    return make_office(store, index, settings=OfficeSettings(masked=mask)).acting(ANA, tenant).destinations


async def test_letters_are_counted_by_domain_and_code(index: Index, store: Store) -> None:
    await bury(store, [letter(store, body=mail(f"{n}@Example.org")) for n in range(300)])
    await bury(store, [letter(store, body=mail("a@example.org", "b@other.example"), code="552")])
    await bury(
        store, [letter(store, body=body) for body in (b"not json", b"[1]", mail(), b'{"to": "a@b.c"}')]
    )
    await bury(store, [letter(store, body=mail("a@elsewhere.example"), queue="orders")])
    found = (await destinations(store, index).count(queue=QUEUE)).found
    assert [(one.domain, one.code, one.count) for one in found.rows] == [
        ("example.org", "550", 300),
        ("", "550", 3),
        ("b.c", "550", 1),
        ("example.org", "552", 1),
    ]
    assert (found.looked, found.whole) == (305, True)


async def test_what_takes_too_long_says_how_far_it_came(index: Index, store: Store) -> None:
    await bury(store, [letter(store, body=mail(f"{n}@example.org")) for n in range(250)])
    found = (await destinations(store, index).count(queue=QUEUE, budget_s=0.0)).found
    assert (found.looked, found.whole) == (100, False)


async def test_a_tenant_sees_its_own_and_a_masked_address_nobody(index: Index, store: Store) -> None:
    await bury(store, [letter(store, body=mail("a@example.org"), tenant=name) for name in ("acme", "globex")])
    assert (await destinations(store, index, "globex").count(queue=QUEUE)).document.looked == 1
    hidden = (await destinations(store, index, mask="to").count(queue=QUEUE)).document
    assert (hidden.destinations, hidden.masked) == ([], True)


async def test_a_filter_a_tenant_and_a_limit_narrow_it_and_what_is_left_out_is_said(
    index: Index, store: Store
) -> None:
    bodies = [mail("a@one.example"), mail("a@one.example"), mail("a@two.example")]
    await bury(store, [letter(store, body=body) for body in bodies])
    await bury(store, [letter(store, body=mail("a@one.example"), tenant="globex", code=None)])
    desk = destinations(store, index)
    first = (await desk.count(queue=QUEUE, limit=1)).document
    assert [(one.domain, one.code, one.count) for one in first.destinations] == [("one.example", "550", 2)]
    assert (first.others, first.looked, first.whole) == (2, 4, True)
    (other,) = (await desk.count(queue=QUEUE, tenant="globex")).document.destinations
    assert (other.domain, other.code, other.count) == ("one.example", None, 1)
    (deep,) = (await desk.count("two.example", queue=f"{QUEUE}:dlq")).document.destinations
    assert (deep.domain, deep.count) == ("two.example", 1)
    nothing = (await desk.count("code:551", queue=QUEUE)).document
    assert (nothing.destinations, nothing.empty is not None) == ([], True)


async def test_only_the_domain_of_an_address_is_told_never_what_a_mask_hides(
    index: Index, store: Store
) -> None:
    hidden = ("4111 1111 1111 1111", "password=hunter2@there", "a@4111111111111111", "no address")
    await bury(store, [letter(store, body=mail(one), queue="orders") for one in hidden])
    found = (await destinations(store, index).count(queue="orders")).found
    assert [(one.domain, one.count) for one in found.rows] == [("", 4)]
