"""The life of an alert over several processes: it fires once, is told once, and clears once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from redrive import Redrive
from redrive.core.alert_rules import AlertSettings, ChannelSettings
from redrive.core.alerts import AlertRule
from redrive.core.condition import Capacity
from redrive.core.errors import ConfigurationError
from redrive.core.letters import LetterKey
from redrive.core.lifecycle import Move
from redrive.core.store import Store
from redrive.office.alerts import NoSilence
from redrive.office.alerts.records import ALERT_RECORDS
from redrive.office.audit import Actor
from redrive.office.duties import DUTY_RECORDS
from redrive.office.view import OutOfScope
from redrive.telemetry.events import (
    AlertCleared,
    AlertFired,
    ChannelBack,
    ChannelFailed,
    LoopFailed,
    NoticeDropped,
)
from redrive.wiring import load
from tests.conformance.backends import Bench
from tests.conformance.makers import QUEUE, dead
from tests.office.alerts.desk import SOON_S, Watcher, alerts, rules, webhook
from tests.office.alerts.endpoints import Endpoint, endpoint
from tests.waiting import wait_until

ANA = Actor("ana@host", "test")
HIGH = rules("dlq_high", above=3, clear=1)


@pytest.fixture
async def slack() -> AsyncIterator[Endpoint]:
    async with endpoint() as made:
        yield made


def settings(port: int, *more: AlertRule, **channels: ChannelSettings) -> AlertSettings:
    return AlertSettings(rules=more or HIGH, channels={"ops": webhook(port), **channels})


async def remove(store: Store, ids: list[str]) -> None:
    await store.remove(QUEUE, [LetterKey(one) for one in ids], Move.DISCARD, actor="ana")


def told(endpoint: Endpoint) -> list[tuple[str, str]]:
    return [(one["kind"], one["alert"]) for one in endpoint.documents]


async def test_two_processes_and_a_restart_tell_once_that_it_fires_and_once_that_it_cleared(
    bench: Bench, slack: Endpoint
) -> None:
    stores = [await bench.open_store() for _ in range(3)]
    first, second = (Watcher(store, settings(slack.port)) for store in stores[:2])
    ids = await dead(stores[0], 4)
    for _ in range(3):
        bench.advance(SOON_S)
        await asyncio.gather(first.on_duty(), second.on_duty())
    assert told(slack) == [("fired", "dlq_high")]
    assert "4 dead letters (more than 3)" in slack.documents[0]["text"]
    await first.close()
    await second.close()
    third = Watcher(stores[2], settings(slack.port))
    bench.advance(SOON_S)
    await third.on_duty()
    assert told(slack) == [("fired", "dlq_high")]
    await remove(stores[0], ids)
    for _ in range(3):
        bench.advance(SOON_S)
        await asyncio.gather(third.on_duty(), second.on_duty())
    assert told(slack) == [("fired", "dlq_high"), ("cleared", "dlq_high")]
    assert slack.documents[0]["key"] == slack.documents[1]["key"]
    events = [*first.told, *second.told, *third.told]
    assert [type(one) for one in events] == [AlertFired, AlertCleared]
    await third.close()


async def test_processes_that_judge_in_the_same_moment_fire_once(bench: Bench, slack: Endpoint) -> None:
    stores = [await bench.open_store() for _ in range(4)]
    watchers = [Watcher(store, settings(slack.port)) for store in stores]
    ids = await dead(stores[0], 4)
    await asyncio.gather(*(one.watch.look() for one in watchers))
    await remove(stores[0], ids)
    await asyncio.gather(*(one.watch.look() for one in watchers))
    assert sorted(type(event).__name__ for one in watchers for event in one.told) == [
        "AlertCleared",
        "AlertFired",
    ]
    assert [one.kind for one in (await alerts(stores[0]))["dlq_high/"].notices] == ["fired", "cleared"]
    for one in watchers:
        await one.close()


async def test_what_fired_is_sent_by_another_when_its_process_died_before_it_could(
    store: Store, slack: Endpoint
) -> None:
    dying, heir = Watcher(store, settings(slack.port)), Watcher(store, settings(slack.port))
    await dead(store, 4)
    await dying.watch.look()
    assert slack.received == []
    await heir.look()
    assert told(slack) == [("fired", "dlq_high")]
    assert heir.told == []
    await dying.close()
    await heir.close()


async def test_a_channel_that_is_down_is_tried_again_and_said_so_and_others_are_told(
    bench: Bench, slack: Endpoint
) -> None:
    store = await bench.open_store()
    async with endpoint() as pager:
        watcher = Watcher(store, settings(slack.port, pager=webhook(pager.port)))
        slack.answer = "500 Trouble"
        await dead(store, 4)
        await watcher.look()
        assert (len(slack.received), told(pager)) == (1, [("fired", "dlq_high")])
        await watcher.look()
        assert len(slack.received) == 1
        listed = await watcher.office.acting(ANA).alerts.list()
        assert [one.waiting_for for one in listed.alerts] == [["ops"]]
        failing = {one.name: one.problem for one in listed.channels}
        assert failing == {"ops": "127.0.0.1 answered 500", "pager": None}
        slack.answer = "200 OK"
        bench.advance(11)
        await watcher.look()
        assert told(slack)[-1:] == [("fired", "dlq_high")]
        assert slack.documents[0]["id"] == slack.documents[1]["id"]
        assert len(pager.received) == 1
    kinds = [type(one) for one in watcher.told]
    assert kinds == [AlertFired, ChannelFailed, ChannelBack]
    await watcher.close()


async def test_a_notice_that_no_one_took_for_a_day_is_given_up_and_that_is_told(
    bench: Bench, slack: Endpoint
) -> None:
    store = await bench.open_store()
    watcher = Watcher(store, settings(slack.port))
    slack.answer = "503 No"
    await dead(store, 4)
    await watcher.look()
    bench.advance(86_500)
    await watcher.look()
    assert isinstance(watcher.told[-1], NoticeDropped)
    assert (await alerts(store))["dlq_high/"].notices == ()
    await watcher.close()


async def test_a_reminder_comes_when_the_rule_asks_for_one(bench: Bench, slack: Endpoint) -> None:
    store = await bench.open_store()
    watcher = Watcher(store, settings(slack.port, *rules("dlq_high", above=3, clear=1, remind_s=3_600)))
    await dead(store, 4)
    for _ in range(3):
        await watcher.look()
        bench.advance(1_900)
    assert told(slack) == [("fired", "dlq_high"), ("reminder", "dlq_high")]
    await watcher.close()


async def test_a_silence_keeps_back_what_fires_until_it_ends_and_is_in_the_audit(
    bench: Bench, slack: Endpoint
) -> None:
    store = await bench.open_store()
    watcher = Watcher(store, settings(slack.port))
    desk = watcher.office.acting(ANA)
    made = await desk.alerts.silence("dlq_high", None, timedelta(hours=1), "deploying")
    await dead(store, 4)
    await watcher.look()
    listed = await desk.alerts.list()
    assert [(one.state, one.silenced) for one in listed.alerts] == [("firing", True)]
    assert [(one.id, one.actor, one.why) for one in listed.silences] == [(made.id, "ana@host", "deploying")]
    assert slack.received == []
    bench.advance(3_700)
    await watcher.look()
    assert told(slack) == [("fired", "dlq_high")]
    again = await desk.alerts.silence("dlq_high", "", timedelta(hours=1))
    await desk.alerts.unsilence(again.id)
    with pytest.raises(NoSilence):
        await desk.alerts.unsilence(again.id)
    rows = await store.read_journal("audit")
    verbs = [row.document["verb"] for row in rows if row.document["row"] == "intent"]
    assert verbs == ["silence alert", "silence alert", "unsilence alert"]
    await watcher.close()


async def test_a_rule_that_is_turned_off_while_it_fires_is_cleared(store: Store, slack: Endpoint) -> None:
    watcher = Watcher(store, settings(slack.port))
    await dead(store, 4)
    await watcher.look()
    without = Watcher(store, settings(slack.port, *rules("dlq_high", off=True)))
    await without.look()
    await without.look()
    assert told(slack) == [("fired", "dlq_high"), ("cleared", "dlq_high")]
    await watcher.close()
    await without.close()


async def test_a_tenants_contacts_hear_of_its_letters_and_it_sees_its_own_alerts_alone(
    store: Store, slack: Endpoint
) -> None:
    async with endpoint() as acme:
        given = AlertSettings(
            rules=rules("tenant_dlq", above=1, clear=0),
            channels={"ops": webhook(slack.port), "acme-desk": webhook(acme.port)},
            contacts={"acme": ("acme-desk",)},
        )
        watcher = Watcher(store, given)
        await dead(store, 2, tenant="acme")
        await dead(store, 2, tenant="globex")
        await watcher.look()
        assert sorted(one["companyId"] for one in slack.documents) == ["acme", "globex"]
        assert [one["companyId"] for one in acme.documents] == ["acme"]
    bound = watcher.office.acting(ANA, "acme").alerts
    listed = await bound.list()
    assert [one.company_id for one in listed.alerts] == ["acme"]
    assert (listed.channels, listed.silences) == ([], [])
    with pytest.raises(OutOfScope):
        await bound.silence(None, None, timedelta(hours=1))
    with pytest.raises(OutOfScope):
        await bound.test("ops")
    await watcher.close()


async def test_of_many_that_fire_at_once_ten_are_told_and_each_contact_hears_of_its_own(
    store: Store, slack: Endpoint
) -> None:
    tenants = [f"t{number:02}" for number in range(15)]
    async with endpoint() as last:
        given = AlertSettings(
            rules=rules("tenant_dlq", above=0, clear=0),
            channels={"ops": webhook(slack.port), "desk": webhook(last.port)},
            contacts=dict.fromkeys(tenants, ("desk",)),
        )
        watcher = Watcher(store, given)
        for tenant in tenants[:12]:
            await dead(store, 1, tenant=tenant)
        await watcher.look()
        for tenant in tenants[12:]:
            await dead(store, 1, tenant=tenant)
        await watcher.look()
        assert (len(slack.received), len(last.received)) == (10, 15)
        assert sum("there may be more: redrive alerts list" in one["text"] for one in slack.documents) == 1
    assert len((await watcher.office.acting(ANA).alerts.list()).alerts) == 15
    await watcher.close()


@pytest.mark.parametrize("remind_s", [None, 60])
async def test_a_tenant_is_told_of_although_ten_others_have_fired_for_longer(
    bench: Bench, slack: Endpoint, remind_s: float | None
) -> None:
    store = await bench.open_store()
    watched = rules("tenant_dlq", above=0, clear=0, remind_s=remind_s)
    watcher = Watcher(store, settings(slack.port, *watched))
    for number in range(10):
        await dead(store, 1, tenant=f"old{number}")
    await watcher.look()
    await dead(store, 1, tenant="within")
    bench.advance(300)
    await watcher.look()
    bench.advance(310)
    await watcher.look()
    await dead(store, 1, tenant="after")
    await watcher.look()
    fired = [one["companyId"] for one in slack.documents if one["kind"] == "fired"]
    assert (len(fired), fired[-1], "within" in fired) == (11, "after", False)
    await watcher.close()


async def test_a_rule_whose_figure_cannot_be_read_keeps_no_other_from_being_judged(
    store: Store, slack: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher(store, settings(slack.port, *rules("store_80"), *HIGH))

    async def broken() -> Capacity:
        raise ValueError("a bug")

    monkeypatch.setattr(store, "capacity", broken)
    await dead(store, 4)
    await watcher.look()
    assert told(slack) == [("fired", "dlq_high")]
    assert [type(one) for one in watcher.told] == [LoopFailed, AlertFired]
    await watcher.close()


async def test_what_a_newer_version_wrote_is_left_alone(store: Store, slack: Endpoint) -> None:
    newer = {"rule": "dlq_high", "subject": "", "severity": "apocalyptic"}
    await store.put_record(ALERT_RECORDS, "dlq_high/", newer, expected=0)
    watcher = Watcher(store, settings(slack.port))
    await dead(store, 4)
    await watcher.look()
    assert (slack.received, watcher.told) == ([], [])
    await watcher.close()


async def test_a_running_app_has_the_duty_and_refuses_a_channel_that_cannot_be(tmp_path: Path) -> None:
    given = {"store": f"sqlite:///{tmp_path}/redrive.db"}
    plain = load(given, environ={}, folder=tmp_path)
    async with Redrive(settings=plain) as app, app.on_duty():

        async def held() -> bool:
            return await app.store.get_record(DUTY_RECORDS, "alerts") is not None

        await wait_until(held, 20, "a process watches")
    channels = {"ops": ChannelSettings(url="https://user:x@hooks.example")}
    wrong = replace(plain, alerts=replace(plain.alerts, channels=channels))
    async with Redrive(settings=wrong) as app:
        with pytest.raises(ConfigurationError, match=r"\[channels.ops\]"):
            async with app.on_duty():
                raise AssertionError("it began")


async def test_every_new_letter_is_told_once_in_batches_of_a_minute(bench: Bench, slack: Endpoint) -> None:
    store = await bench.open_store()
    given = AlertSettings(rules=rules("dlq_high"), channels={"admin": webhook(slack.port, letters=True)})
    watcher = Watcher(store, given)
    await dead(store, 1)
    bench.advance(10)
    await watcher.look()
    bench.advance(30)
    ids = await dead(store, 22)
    await watcher.look()
    assert slack.received == []
    bench.advance(60)
    await watcher.look()
    (notice,) = slack.documents
    assert notice["kind"] == "letters"
    lines = notice["text"].splitlines()
    assert lines[0] == "22 new dead letters"
    assert [line.split()[0] for line in lines[1:21]] == ids[:20]
    assert lines[21].startswith("and 2 more")
    bench.advance(90)
    await watcher.look()
    assert len(slack.received) == 1
    await watcher.close()
