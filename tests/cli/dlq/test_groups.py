"""`dlq groups`, `group` and `shape`: causes, whom they hit, and what people said."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shop


def _bury(shop: Shop) -> str:
    """Two causes of two tenants; the fingerprint of the larger one."""
    for tenant in ("acme", "acme", "globex"):
        shop.bury("card was declined", "--tenant", tenant)
    shop.bury("no such order", "--tenant", "acme")
    return str(shop.ok("dlq", "groups")["groups"][0]["key"])


def test_groups_count_and_show_how_to_go_on(shop: Shop) -> None:
    fingerprint = _bury(shop)
    larger, smaller = shop.ok("dlq", "groups")["groups"]
    assert (larger["count"], larger["tenants"], larger["state"]) == (3, 2, "open")
    assert (smaller["count"], smaller["sample"]["lastFailureReason"]) == (1, "no such order")
    assert sum(larger["trend"]) == 3
    shown = shop("dlq", "groups")
    assert "card was declined [402]" in shown.out
    assert f"redrive dlq redrive --filter fingerprint:{fingerprint} --canary 5 --rate 20/s" in shown.error
    assert f"redrive dlq show {larger['sample']['jobId']}" in shown.error


def test_a_group_that_spans_queues_says_so(shop: Shop) -> None:
    for queue in ("orders", "email:send"):
        shop.bury("card was declined", queue=queue)
    (group,) = shop.ok("dlq", "groups")["groups"]
    assert group["queues"] == ["email:send", "orders"]
    assert "email:send, orders permanent: card was declined" in shop("dlq", "groups").out
    shown = shop.ok("dlq", "group", "show", group["key"])
    assert shown["group"]["queues"] == ["email:send", "orders"]
    assert "email:send, orders" in shop("dlq", "group", "show", group["key"]).out


def test_the_first_sight_of_a_group_outlives_a_redrive_in_vain(shop: Shop) -> None:
    message_id = shop.bury()
    (before,) = shop.ok("dlq", "groups")["groups"]
    shop("dlq", "redrive", message_id, "--yes")
    shop.work()
    (after,) = shop.ok("dlq", "groups")["groups"]
    assert (after["count"], after["firstSeenAt"]) == (1, before["firstSeenAt"])
    assert after["lastSeenAt"] > before["lastSeenAt"]


@pytest.mark.parametrize("by", ["code", "reason", "tenant", "queue", "age"])
def test_groups_by_everything_else(shop: Shop, by: str) -> None:
    _bury(shop)
    found = shop.ok("dlq", "groups", "--by", by, "--filter", "tenant:acme")["groups"]
    assert sum(one["count"] for one in found) == 3
    assert shop("dlq", "groups", "--by", by).code == 0


def test_what_is_said_of_a_group_stays_and_ends_by_itself(shop: Shop) -> None:
    fingerprint = _bury(shop)
    shop.ok("dlq", "group", "note", fingerprint, "the bank is down, ana asks them")
    assert "ana asks them" in shop("dlq", "groups").out
    shop.ok("dlq", "group", "ignore", fingerprint, "--until-count", "4")
    assert shop.ok("dlq", "groups")["groups"][0]["state"] == "ignored"
    shop.bury("card was declined")
    assert shop.ok("dlq", "groups")["groups"][0]["state"] == "open"
    shop.ok("dlq", "group", "resolve", fingerprint)
    document = shop.ok("dlq", "group", "show", fingerprint)
    assert (document["group"]["state"], document["said"]["notes"][0]["text"][:8]) == ("resolved", "the bank")
    assert "resolved, said" in shop("dlq", "group", "show", fingerprint).out
    shop.ok("dlq", "group", "reopen", fingerprint)
    assert shop.ok("dlq", "groups")["groups"][0]["state"] == "open"
    assert {row["verb"] for row in shop.ok("audit")["rows"]} >= {"note group", "ignore group"}


def test_ignoring_needs_an_end_and_a_group_that_exists(shop: Shop) -> None:
    fingerprint = _bury(shop)
    assert shop("dlq", "group", "ignore", fingerprint).code == 2
    assert shop("dlq", "group", "ignore", fingerprint, "--until", "soon").code == 2
    assert shop.ok("dlq", "group", "ignore", fingerprint, "--until", "2h")["state"] == "ignored"
    missing = shop("dlq", "group", "resolve", "0000000000000000")
    assert missing.code == 4
    assert "dlq groups" in missing.error


def test_the_shape_is_tenants_by_age(shop: Shop) -> None:
    _bury(shop)
    document = shop.ok("dlq", "shape")
    assert (document["ages"][0], document["total"], document["counts"][0]) == ("5m", 4, 4)
    assert [(one["companyId"], one["total"]) for one in document["tenants"]] == [("acme", 3), ("globex", 1)]
    assert "globex" in shop("dlq", "shape").out
    assert shop("dlq", "shape", "--filter", "tenant:nobody").out == "no dead letters\n"
