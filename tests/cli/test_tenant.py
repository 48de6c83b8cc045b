"""`redrive tenant`: the switches of a tenant, from the terminal."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shop


def test_tenants_are_listed_by_what_is_dead_and_waits(shop: Shop) -> None:
    shop.send(1, "--tenant", "acme")
    shop.bury("no", "--tenant", "globex")
    shop.send(1, "--tenant", "globex", queue="email:send")
    lanes = shop.ok("tenant", "list")["lanes"]
    assert (lanes[0]["companyId"], lanes[0]["queue"]) == ("globex", "orders")
    assert len(shop.ok("tenant", "list", "--queue", "email:send")["lanes"]) == 1
    assert {lane["queue"] for lane in shop.ok("tenant", "show", "globex")["lanes"]} == {
        "orders",
        "email:send",
    }


def test_a_paused_tenant_waits_and_is_told_why(shop: Shop) -> None:
    message_id = shop.send(1, "--tenant", "acme")
    paused = shop("tenant", "pause", "acme")
    assert "redrive tenant resume acme" in paused.error
    shop.work()
    assert "redrive tenant resume acme" in shop.ok("show", message_id)["why"]
    assert shop.ok("tenant", "resume", "acme")["lanes"][0]["state"] == "running"
    shop.work()
    assert shop.ok("show", message_id)["state"] == "done"


def test_weight_cap_and_rate_are_set_and_removed(shop: Shop) -> None:
    shop.send(1, "--tenant", "acme")
    flags = ("--weight", "5", "--cap", "2", "--rate", "100/min")
    (lane,) = shop.ok("tenant", "set", "acme", *flags)["lanes"]
    assert (lane["weight"], lane["cap"], lane["rate"]) == (5, 2, "100/min")
    assert "100/min" in shop("status", "--lanes", "orders").out
    (lane,) = shop.ok("tenant", "set", "acme", "--cap", "0", "--unlimited")["lanes"]
    assert (lane["weight"], lane["cap"], lane["rate"]) == (5, None, None)
    assert {row["verb"] for row in shop.ok("audit")["rows"]} == {"set tenant"}


def test_a_tenant_that_is_still_to_come_can_be_set_in_a_queue(shop: Shop) -> None:
    shop.send(1, "--tenant", "acme")
    assert shop("tenant", "set", "newcomer", "--weight", "3").code == 4
    assert (
        shop.ok("tenant", "set", "newcomer", "--queue", "orders", "--weight", "3")["lanes"][0]["weight"] == 3
    )


@pytest.mark.parametrize(
    "flags", [(), ("--weight", "0"), ("--cap", "-1"), ("--rate", "fast"), ("--rate", "1/s", "--unlimited")]
)
def test_what_cannot_be_set_is_refused(shop: Shop, flags: tuple[str, ...]) -> None:
    shop.send(1, "--tenant", "acme")
    assert shop("tenant", "set", "acme", *flags).code == 2


@pytest.mark.parametrize("verb", ["show", "pause", "resume"])
def test_an_unknown_tenant_is_not_found(shop: Shop, verb: str) -> None:
    shop.send()
    assert shop("tenant", verb, "amce").code == 4
