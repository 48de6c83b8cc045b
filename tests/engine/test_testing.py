"""`redrive.testing`: one's own app on a store and a clock of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive import Delivery, Permanent, Redrive, Temporary
from redrive.testing import trial
from redrive.wiring import load


@pytest.fixture
def shop(tmp_path: Path) -> Redrive:
    """An app as a user's module has it, on a server that nobody should reach."""
    code = {"store": "redis://nowhere.invalid/0"}
    app = Redrive(settings=load(code=code, environ={}, folder=tmp_path))

    @app.handler("orders")
    async def charge(order: dict[str, int], delivery: Delivery) -> None:
        if order["total"] > 100:
            raise Temporary("payment gateway timed out", code="504")
        await app.submit("receipts", order, delay=60)

    @app.handler("receipts")
    def print_receipt(order: dict[str, int]) -> None:
        if order["total"] == 13:
            app.sync.submit("orders", {"total": 14}, delay=60)
            raise Permanent("no ink")

    return app


async def test_a_test_that_awaits_moves_its_app_to_a_store_and_clock_of_its_own(shop: Redrive) -> None:
    before = shop.settings
    async with trial(shop) as test:
        begun = test.clock.now
        await shop.submit("orders", {"total": 500})
        assert await test.run_until_idle(jump=False) == {"retried": 1}
        assert await test.run_until_idle() == {"retried": 3, "buried": 1}
        assert [letter.reason for letter in await test.dead_letters()] == ["exhausted"]
        assert (test.clock.now - begun).total_seconds() > 10
    assert shop.settings is before
    assert not shop.is_open


def test_a_test_that_does_not_await_has_the_same(shop: Redrive) -> None:
    with trial(shop) as test:
        shop.sync.submit("orders", {"total": 13})
        shop.sync.submit("orders", {"total": 500}, tenant="acme")
        ended = test.run_until_idle()
        assert ended == {"done": 3, "retried": 4, "buried": 2}
        assert sorted(letter.reason for letter in test.dead_letters()) == ["exhausted", "permanent"]
        assert len(test.dead_letters("receipts")) == 1
    assert not shop.is_open


def test_each_trial_begins_empty_and_on_time(shop: Redrive) -> None:
    with trial(shop) as test:
        shop.sync.submit("orders", {"total": 500}, dedupe="once")
        test.clock.advance(3600)
    with trial(shop) as test:
        assert test.run_until_idle() == {}
    assert shop.skew_ms == 0


async def test_every_store_of_the_app_sees_the_moved_clock(shop: Redrive) -> None:
    async with trial(shop) as test:
        test.clock.advance(86_400)
        receipt = shop.sync.submit("orders", {"total": 1}, delay=60)
        assert await test.run_until_idle(jump=False) == {}
        account = await shop.store.get(receipt.id)
        assert account is not None
        assert account.progress.due_at > shop.store.now()


async def test_an_app_that_is_open_is_not_moved_under_its_users(tmp_path: Path) -> None:
    app = Redrive(settings=load({"store": f"sqlite:///{tmp_path}/redrive.db"}, environ={}))
    async with app:
        with pytest.raises(RuntimeError, match="close it"):
            async with trial(app):
                pass
