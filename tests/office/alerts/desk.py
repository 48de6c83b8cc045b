"""Makers for the tests of alerts: offices with rules and channels, and what is counted by the minute."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from redrive.core.alert_rules import DEFAULT_RULES, AlertSettings, ChannelSettings
from redrive.core.alerts import AlertRule
from redrive.core.store import WORKER_RECORDS, Store
from redrive.core.totals import MILLIONTHS, SUM, Flow, Measured, Total, TotalsBatch
from redrive.office.alerts.channels import Alerting
from redrive.office.alerts.records import Alert, every_alert
from redrive.office.alerts.watch import LOOK_S, AlertWatch
from redrive.office.duties import Duties
from redrive.office.index import Index
from redrive.office.office import Office
from redrive.telemetry.events import Event
from tests.conformance.makers import new_token
from tests.office.desks import make_office


def rules(*names: str, **changes: object) -> tuple[AlertRule, ...]:
    """Default rules of these names, each with the same changes."""
    return tuple(structs.replace(DEFAULT_RULES[name], **changes) for name in names)


def webhook(port: int, **more: object) -> ChannelSettings:
    """A channel of our own to a port of this machine."""
    url = f"http://127.0.0.1:{port}/hook/canary-path"
    return ChannelSettings(url=url, allow_http=True, allow_private=True, **more)  # type: ignore[arg-type]


SOON_S = LOOK_S + 1
"""After so long every process looks again."""


class Watcher:
    """A process that watches: its own office, index and memory on a store that others use too."""

    def __init__(self, store: Store, settings: AlertSettings, **alerting: object) -> None:
        self.told: list[Event] = []
        self.index = Index(store)
        plain = make_office(store, self.index)
        desk = Alerting(settings, **alerting)  # type: ignore[arg-type]
        self.office: Office = replace(plain, alerting=desk)
        self.watch = AlertWatch(self.office, self.told.append)
        self.duties = Duties(self.office, self.told.append)

    async def look(self) -> None:
        """Judge and send once, whatever the time."""
        await self.watch.look()
        await self.watch.step()

    async def on_duty(self) -> None:
        """What a running process does: judge and send when it is time, if it holds the duty."""
        await self.duties.steps()["alerts"]()

    async def close(self) -> None:
        """End as a process does that is stopped."""
        await self.duties.close()
        await self.index.close()


async def alerts(store: Store) -> dict[str, Alert]:
    """What is remembered, by rule and subject."""
    return {f"{one.rule}/{one.subject}": one async for one, _ in every_alert(store)}


async def count(store: Store, queue: str, **flows: int) -> None:
    """Add what processes counted within the present minute."""
    totals = tuple(Total(Flow(name), queue, "", number) for name, number in flows.items())
    await store.add_totals(TotalsBatch(new_token(), 1, totals))


async def hand_over(store: Store, count: int, each_s: float) -> None:
    """So many first attempts of `orders` waited for so long."""
    whole = round(count * each_s * MILLIONTHS)
    totals = (Total(Measured.HANDOVER, "orders", "3", count), Total(Measured.HANDOVER, "orders", SUM, whole))
    await store.add_totals(TotalsBatch(new_token(), 1, totals))


async def announce(store: Store, started_at: int = 0, **figures: object) -> None:
    """What a worker of `orders` says of itself, for the next minute."""
    document = {"host": "h", "pid": 1, "queues": ["orders"], "startedAt": started_at, "figures": figures}
    await store.put_record(WORKER_RECORDS, "w", document, expected=None, ttl_s=60)
