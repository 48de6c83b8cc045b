"""`redrive audit`: who did what, and whether a row was changed."""

from __future__ import annotations

import sqlite3

from tests.cli.conftest import Shop


def test_rows_are_told_by_actor_verb_and_time(shop: Shop) -> None:
    shop.send()
    shop.ok("queue", "pause", "orders")
    shop.ok("queue", "resume", "orders")
    rows = shop.ok("audit")["rows"]
    assert [(row["verb"], row["row"]) for row in rows] == [
        ("pause", "intent"),
        ("pause", "outcome"),
        ("resume", "intent"),
        ("resume", "outcome"),
    ]
    actor = rows[0]["actor"]
    assert len(shop.ok("audit", "--actor", actor, "--verb", "pause")["rows"]) == 2
    assert shop.ok("audit", "--actor", "nobody")["rows"] == []
    assert len(shop.ok("audit", "list", "--since", "1h")["rows"]) == 4
    assert shop.ok("audit", "--since", "2999-01-01")["rows"] == []
    assert [row["row"] for row in shop.ok("audit", "--limit", "1")["rows"]] == ["outcome"]
    assert shop.ok("audit", "--unfinished")["rows"] == []
    assert "queue=orders" in shop("audit").out
    assert shop("audit", "--since", "yesterday").code == 2


def test_verify_tells_the_head_and_finds_it_again(shop: Shop) -> None:
    shop.send()
    shop.ok("queue", "pause", "orders")
    whole = shop.ok("audit", "verify")
    assert (whole["whole"], whole["rows"]) == (True, 2)
    head = whole["head"]
    assert head.startswith("2:")
    assert head in shop("audit", "verify").error
    shop.ok("queue", "resume", "orders")
    assert shop("audit", "verify", "--head", head).code == 0
    assert shop("audit", "verify", "--head", f"2:{'0' * 64}").code == 1
    assert shop("audit", "verify", "--head", "2").code == 2


def test_verify_names_the_row_that_was_changed(shop: Shop) -> None:
    shop.send()
    shop.ok("queue", "pause", "orders")
    with sqlite3.connect(shop.folder / "redrive.db") as db:
        changed = db.execute(
            "UPDATE journal SET document = replace(document, 'pause', 'resume') WHERE position = 1"
        )
        assert changed.rowcount == 1
    result = shop("audit", "verify", "--json")
    assert (result.code, result.document["faults"][0]["row"]) == (1, 1)
    shown = shop("audit", "verify").out
    assert "the chain is broken" in shown
    assert "row 1: the row was changed" in shown
