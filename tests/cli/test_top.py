"""`redrive top` on a real terminal: it fits, follows the store, survives it, and q ends it as it began."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.cli.render.overview import share_out
from redrive.core.alerts import AlertPhase, AlertState
from redrive.office.alerts.records import Alert, write_alert
from redrive.office.audit import Actor
from redrive.office.operations import OperationKind, Order, Selection
from tests.cli.conftest import Shop
from tests.cli.processes import play
from tests.servers import free_port, start_redis

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_ENTERED, _LEFT = "\x1b[?1049h", "\x1b[?1049l"


def screens(shown: str) -> list[list[str]]:
    """Each screen that was drawn, as lines of text."""
    drawn = shown.partition(_ENTERED)[2].partition(_LEFT)[0].split("\x1b[H")[1:]
    return [
        [line.rstrip() for line in _CONTROL.sub("", one).split("\n")] for one in drawn if "redrive top" in one
    ]


def fill(shop: Shop) -> None:
    """Dead letters of two causes, work that waits, of many tenants in several queues."""
    for number in range(3):
        shop.send({"permanent": "card was declined"}, "--tenant", "acme")
        shop.send({"permanent": f"no stock of {number}"}, "--tenant", "globex")
    shop.work()
    for number in range(30):
        shop.send({}, "--tenant", f"tenant-{number}")
        shop.send({}, queue=f"queue-{number}")


def quits() -> str:
    return "q"


async def order_and_alert(app: Redrive) -> None:
    """An alert that fires, and an order that nobody carries out."""
    operations = app.office.acting(Actor("ana", "test")).operations
    alert = Alert(
        rule="dlq_high", subject="", state=AlertState(AlertPhase.FIRING, 0), text="101 dead letters"
    )
    assert await write_alert(app.store, alert, 0)
    await operations.start(Order(OperationKind.REDRIVE, Selection(filter="tenant:acme")))


@pytest.mark.parametrize("size", [(24, 80), (12, 60), (50, 160)])
def test_it_fills_the_terminal_and_no_more_and_q_ends_it(shop: Shop, size: tuple[int, int]) -> None:
    fill(shop)
    code, shown = play(shop.folder, "top", steps=[("q quits", quits)], size=size)
    assert code == 0
    assert shown.index(_ENTERED) < shown.index(_LEFT)
    (*_, last) = screens(shown)
    assert len(last) <= size[0]
    assert max(map(len, last)) <= size[1]
    assert last[0].startswith("redrive top  sqlite:///redrive.db")
    assert "q quits" in last
    assert any(line.startswith("queue (") for line in last), last


def test_it_shows_alerts_queues_tenants_causes_and_operations(shop: Shop) -> None:
    fill(shop)
    shop.with_app(order_and_alert)
    _, shown = play(shop.folder, "top", steps=[("q quits", quits)], size=(60, 120))
    text = "\n".join(screens(shown)[-1])
    assert re.search(r"orders .* 6 ", text)
    assert "card was declined" in text
    assert re.search(r"[0-9a-f]{20} +redrive +freezing", text), text
    assert re.search(r"dlq_high +00:00Z +101 dead letters", text)
    assert "no worker is alive" in text


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_without_a_terminal_it_says_what_to_use_instead(shop: Shop, flags: Sequence[str]) -> None:
    shop.send()
    result = shop("top", *flags)
    assert (result.code, result.out) == (2, "")
    assert "redrive status shows the same once" in result.error


def test_a_store_that_does_not_exist_is_an_error_and_no_screen(shop: Shop) -> None:
    code, shown = play(shop.folder, "top", steps=[("q quits", quits)], size=(24, 80))
    assert code != 0
    assert _ENTERED not in shown
    assert "no store at" in shown


def test_a_store_that_goes_away_is_said_on_the_screen(shop: Shop, tmp_path: Path) -> None:
    server = start_redis(tmp_path)
    shop.ok("send", "orders", "{}", "--store", server.url)

    def stop() -> str:
        server.stop()
        return "x"

    steps = [("q quits", stop), ("not up to date", quits)]
    try:
        code, shown = play(shop.folder, "top", "--store", server.url, steps=steps, size=(24, 80))
    finally:
        server.stop()
    assert code == 0
    assert any("orders" in line for line in screens(shown)[-1])


@pytest.mark.parametrize("more", ["", "; and why is a long story" * 20], ids=["short", "long"])
def test_an_alert_names_its_subject_once_and_when_it_fired(shop: Shop, more: str) -> None:
    async def fire(app: Redrive) -> None:
        state = AlertState(AlertPhase.FIRING, 0)
        text = f"acme: 60 dead letters (more than 50){more}"
        alert = Alert(rule="tenant_dlq", subject="acme", tenant="acme", state=state, text=text)
        assert await write_alert(app.store, alert, 0)

    shop.send()
    shop.with_app(fire)
    _, shown = play(shop.folder, "top", steps=[("q quits", quits)], size=(60, 120))
    assert re.search(r"tenant_dlq +00:00Z +acme: 60 dead letters", "\n".join(screens(shown)[-1])), shown


def test_a_broker_that_cannot_be_reached_is_said_on_the_screen(shop: Shop) -> None:
    address = f"amqp://127.0.0.1:{free_port()}/"
    shop.ok("send", "orders", "{}", "--store", address)
    flags = ("top", "--store", address)
    code, shown = play(shop.folder, *flags, steps=[("q quits", quits)], size=(24, 160))
    assert code == 0
    assert any(f"{address} does not answer" in line for line in screens(shown)[-1]), shown


@pytest.mark.parametrize(
    ("room", "wanted", "given"),
    [
        (0, [5, 5], [0, 0]),
        (5, [5, 5], [3, 2]),
        (9, [1, 20, 3], [1, 5, 3]),
        (100, [2, 3], [2, 3]),
        (4, [], []),
    ],
)
def test_lines_are_shared_out_in_turn(room: int, wanted: list[int], given: list[int]) -> None:
    assert share_out(room, wanted) == given
