"""`redrive keys`: a key is shown once, listed without its text, and ends when it is revoked."""

from __future__ import annotations

import re

from redrive.app import Redrive
from redrive.office.access import Credential, find_key, verify
from redrive.office.audit import Actor
from redrive.office.sessions import Sessions
from tests.cli.conftest import Shop


def _verify(shop: Shop, text: str) -> Credential | None:
    async def check(app: Redrive) -> Credential | None:
        return await verify(app.store, text)

    return shop.with_app(check)


def test_create_prints_the_key_alone(shop: Shop) -> None:
    result = shop("keys", "create", "--role", "submit", "--tenant", "acme", "--name", "shop front")
    assert re.fullmatch(r"rdk_[0-9a-f]{12}_[\w-]{43}\n", result.out)
    assert "shown once" in result.error
    credential = _verify(shop, result.out.strip())
    assert credential is not None
    assert (credential.role, credential.tenant, credential.name) == ("submit", "acme", "shop front")


def test_json_has_the_key_in_one_field(shop: Shop) -> None:
    document = shop.ok("keys", "create", "--role", "viewer")
    about = document["about"]
    assert document["key"].startswith(f"rdk_{about['id']}_")
    assert (about["role"], about["companyId"], about["revokedAt"]) == ("viewer", None, None)


def test_the_list_never_shows_a_secret(shop: Shop) -> None:
    key = shop.ok("keys", "create", "--role", "admin", "--name", "[red]\x1b[31mops")["key"]
    for form in ((), ("--json",)):
        shown = shop("keys", "list", *form).out
        assert key[4:16] in shown
        assert key[17:] not in shown
        assert "\x1b" not in shown
    assert "[red]ops" in shop("keys", "list").out


def test_a_revoked_key_is_refused_and_listed_only_on_request(shop: Shop) -> None:
    first, second = (shop.ok("keys", "create", "--role", "admin") for _ in range(2))
    first_id = first["about"]["id"]
    assert shop("keys", "revoke", first_id).out == f"{first_id} is revoked\n"
    ended_at = shop.ok("keys", "revoke", second["key"])["revokedAt"]
    assert ended_at
    assert shop.ok("keys", "revoke", second["key"])["revokedAt"] == ended_at
    assert f"{first_id} had been revoked already, on 20" in shop("keys", "revoke", first_id).out
    assert _verify(shop, first["key"]) is _verify(shop, second["key"]) is None
    assert shop.ok("keys", "list")["keys"] == []
    assert "no keys" in shop("keys", "list").out
    assert len(shop.ok("keys", "list", "--revoked")["keys"]) == 2


def test_an_unknown_key_is_not_found(shop: Shop) -> None:
    shop.send()
    result = shop("keys", "revoke", "rdk_000000000000_secretsecret")
    assert result.code == 4
    assert "secretsecret" not in result.error


def test_a_submit_key_is_limited_to_domains_and_queues_and_ends(shop: Shop) -> None:
    arguments = ("--role", "submit", "--tenant", "acme", "--expires", "30d")
    limits = ("--from-domain", "acme.example", "--from-domain", "*.acme.example", "--queue", "orders*")
    document = shop.ok("keys", "create", *arguments, *limits)
    assert document["about"]["fromDomains"] == ["acme.example", "*.acme.example"]
    assert document["about"]["queues"] == ["orders*"]
    known = _verify(shop, document["key"])
    assert known is not None
    assert known.expires_at == known.created_at + 30 * 86_400_000
    shown = shop("keys", "list").out
    assert "from acme.example, *.acme.example to orders*" in " ".join(shown.split())
    assert shop.ok("keys", "list")["keys"][0]["lastUsedAt"] is not None


def test_revealing_is_granted_and_withheld(shop: Shop) -> None:
    granted = shop.ok("keys", "create", "--role", "viewer", "--reveal")
    withheld = shop.ok("keys", "create", "--role", "admin", "--no-reveal")
    assert (granted["about"]["reveal"], withheld["about"]["reveal"]) == (True, False)
    shown = shop("keys", "list").out
    assert "may reveal" in shown
    assert "may not reveal" in shown


def test_a_rotated_key_has_a_successor_and_ends_after_the_overlap(shop: Shop) -> None:
    old = shop.ok("keys", "create", "--role", "submit", "--tenant", "acme", "--queue", "orders")
    old_id = old["about"]["id"]
    new = shop.ok("keys", "rotate", old_id, "--overlap", "2h")
    about = new["about"]
    assert (about["role"], about["companyId"], about["queues"]) == ("submit", "acme", ["orders"])
    assert _verify(shop, old["key"]) is not None
    assert _verify(shop, new["key"]) is not None
    ends = {key["id"]: key["expiresAt"] for key in shop.ok("keys", "list")["keys"]}
    assert ends[old_id] is not None
    assert ends[about["id"]] is None
    shop.ok("keys", "rotate", new["key"], "--overlap", "0s")
    assert _verify(shop, new["key"]) is None
    assert about["id"] not in [key["id"] for key in shop.ok("keys", "list")["keys"]]
    assert shop("keys", "rotate", about["id"]).code == 4
    assert about["id"] in [key["id"] for key in shop.ok("keys", "list", "--revoked")["keys"]]


def test_what_cannot_be_meant_is_refused_before_a_key_is_made(shop: Shop) -> None:
    for wrong in (
        ("--from-domain", "a b"),
        ("--queue", "a*b"),
        ("--expires", "soon"),
        ("--reveal",),
        ("--name", "n" * 201),
    ):
        result = shop("keys", "create", "--role", "submit", "--tenant", "acme", *wrong)
        assert result.code == 2, wrong
        assert not result.out


def test_a_link_signs_in_as_the_first_admin_or_the_key_that_is_named(shop: Shop) -> None:
    viewer = shop.ok("keys", "create", "--role", "viewer", "--tenant", "acme")["about"]["id"]
    assert "keys create --role admin" in shop("keys", "link").error
    admin = shop.ok("keys", "create", "--role", "admin")["about"]["id"]
    made = shop.ok("keys", "link")
    assert made["key"] == admin
    assert re.fullmatch(r"http://127\.0\.0\.1:8025/link/rdl_[0-9a-f]{12}_[\w-]{43}", made["link"])
    named = shop.ok("keys", "link", viewer, "--url", "https://redrive.example/")
    assert (named["role"], named["companyId"]) == ("viewer", "acme")
    assert named["link"].startswith("https://redrive.example/link/rdl_")


def test_a_session_is_listed_and_ended(shop: Shop) -> None:
    key = shop.ok("keys", "create", "--role", "viewer")["about"]["id"]

    async def enter(app: Redrive) -> str:
        found = await find_key(app.store, key)
        assert found is not None
        return (await Sessions(app.store, Actor("test", "dashboard")).open(found))[0].id

    session = shop.with_app(enter)
    (listed,) = shop.ok("keys", "sessions")["sessions"]
    assert (listed["id"], listed["key"]) == (session, key)
    assert shop.ok("keys", "sessions", "--end", session)["ended"] is True
    assert shop.ok("keys", "sessions")["sessions"] == []
    assert "no session" in shop("keys", "sessions", "--end", session).error


def test_a_rotation_says_how_long_the_old_key_is_still_let_in(shop: Shop) -> None:
    shop.send()
    made = shop.ok("keys", "create", "--role", "viewer")
    assert "ends in 2 h" in shop("keys", "rotate", made["key"], "--overlap", "2h").error
