"""A gateway dies between fanning out a mail and settling it, where no finished record is to be kept.

The next one sends the recipients' mails, then takes the parent over and fans it out again: by then every
child is done, and must still be known. The ledger is the mailbox: each recipient has the mail once.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.mail.desk import RecipientState
from redrive.mail.writing.mail import Mail
from redrive.mailbox import Mailbox
from tests.faults.gateway_child import make_gateway
from tests.programs import run
from tests.waiting import wait_until


async def test_a_mail_is_sent_once_though_the_gateway_dies_after_its_fan_out(
    tmp_path: Path, store_url: str
) -> None:
    await _run(tmp_path, store_url, mails=3)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_forty_mails_are_sent_once_though_the_gateway_dies_at_each(
    tmp_path: Path, store_url: str
) -> None:
    await _run(tmp_path, store_url, mails=40)


async def _run(folder: Path, store: str, mails: int) -> None:
    async with Mailbox() as inbox, make_gateway(folder, store, inbox.url, keep=0) as app:
        accepted: dict[str, list[str]] = {}
        for number in range(mails):
            to = [f"ok+{number}-{place}@example.org" for place in range(3)]
            mail = Mail(from_="shop@acme.example", to=to, subject=str(number), text="hello")
            accepted[(await app.mail.submit(mail, tenant="acme")).id] = to
            await asyncio.to_thread(_die_after_fan_out, folder, store, inbox.url)
            await _settle(app)
        for mail_id, to in accepted.items():
            status = await app.mail.find(mail_id)
            assert status is not None
            assert [one.state for one in status.recipients] == [RecipientState.SENT] * len(to)
        arrived = Counter(address for mail in inbox.received for address in mail.recipients)
        assert arrived == Counter(address for to in accepted.values() for address in to)


async def _settle(app: Redrive) -> None:
    worker = asyncio.create_task(app.run(signals=False))
    try:
        await wait_until(lambda: _is_settled(app), 60, "every mail is settled")
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


def _die_after_fan_out(folder: Path, store: str, relay: str) -> None:
    arguments = ["tests.faults.gateway_child", str(folder), store, relay, "fan-out"]
    died = run(arguments, timeout=60)
    assert died.returncode == -signal.SIGKILL, died.stderr


async def _is_settled(app: Redrive) -> bool:
    counts = await app.store.queues()
    return not any(one.pending + one.scheduled + one.retry_scheduled + one.processing for one in counts)
