"""Where a re-drive may send letters: a queue there is, or one that a live worker waits for; never a typo."""

from __future__ import annotations

from redrive import Redrive
from tests.cli.conftest import Shop


def test_a_queue_that_only_a_live_worker_knows_may_be_named(shop: Shop) -> None:
    letter = shop.bury()

    async def announce(app: Redrive) -> None:
        worker = {"queues": ["refunds"], "host": "here", "pid": 7, "startedAt": 0}
        await app.store.put_record("worker", "w", worker, expected=None, ttl_s=60)

    assert shop("dlq", "redrive", letter, "--to", "refunds").code == 4
    shop.with_app(announce)
    typo = shop("dlq", "redrive", letter, "--to", "refnds")
    assert (typo.code, "no queue 'refnds'" in typo.error) == (4, True)
    assert shop.ok("dlq", "redrive", letter, "--to", "refunds")["operation"]["moved"] == 1
    assert shop.ok("show", shop.ok("show", letter)["replacedBy"])["queue"] == "refunds"
