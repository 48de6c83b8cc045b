"""No log, answer or record holds what a channel's address or secret is."""

from __future__ import annotations

import logging
import sys

import pytest

from redrive.core.alert_rules import AlertSettings, ChannelSettings
from redrive.core.errors import ConfigurationError
from redrive.core.store import Store
from redrive.office.alerts.channels import Alerting
from redrive.office.alerts.records import ALERT_RECORDS, CHANNEL_RECORDS, SILENCE_RECORDS
from redrive.office.audit import Actor
from tests.conformance.makers import dead
from tests.office.alerts.desk import Watcher, rules, webhook
from tests.office.alerts.endpoints import endpoint

CANARIES = ("canary-path", "canary-secret", "CANARY0KEY0", "CANARYSLACKTOKEN00000000")


async def test_no_log_answer_or_record_holds_a_channels_address_or_secret(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apprise.plugins.slack import NotifySlack

    caplog.set_level(logging.DEBUG)
    async with endpoint() as good, endpoint() as bad:
        bad.answer = "500 canary-path canary-secret"
        monkeypatch.setattr(NotifySlack, "webhook_url", f"http://127.0.0.1:{bad.port}/services")
        pager = f"pagerduty://CANARY0KEY0@127.0.0.1:{bad.port}"
        channels = {
            "good": webhook(good.port, secret="canary-secret"),  # noqa: S106 - what must not be seen
            "bad": webhook(bad.port, secret="canary-secret"),  # noqa: S106
            "pager": ChannelSettings(url=pager, allow_http=True, allow_private=True),
            "slack": ChannelSettings(url="slack://T1JJ3T3L2/A1BRTD4JD/CANARYSLACKTOKEN00000000/#ops"),
        }
        watcher = Watcher(store, AlertSettings(rules=rules("dlq_high", above=0, clear=0), channels=channels))
        await dead(store, 1)
        await watcher.look()
        assert (len(good.received), len(bad.received)) == (1, 3)
        desk = watcher.office.acting(Actor("ana", "test")).alerts
        answers = [await desk.list(every=True), desk.rules(), *[await desk.test(name) for name in channels]]
    kept = [
        record.document
        for kind in (ALERT_RECORDS, CHANNEL_RECORDS, SILENCE_RECORDS)
        for record in await store.list_records(kind)
    ]
    rows = [row.document for row in await store.read_journal("audit")]
    assert len(kept) == 5
    shown = f"{caplog.text} {answers} {kept} {rows} {watcher.told} {watcher.office.alerting}"
    assert [canary for canary in CANARIES if canary in shown] == []
    await watcher.close()


def test_without_apprise_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    desk = Alerting(AlertSettings(channels={"ops": ChannelSettings(url="slack://a/b/c")}))
    with pytest.raises(ConfigurationError, match=r"pip install 'redrive\[alerts\]'"):
        desk.check()
