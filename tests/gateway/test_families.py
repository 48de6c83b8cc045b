"""A mail to many, of which one died: shown whole, archived with the mail, and delivered once when back."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from redrive import Redrive
from redrive.core.letters import DeadLetter
from redrive.core.ports import Cleanup
from redrive.core.redaction import MASKED
from redrive.core.settings import RetentionSettings
from redrive.mail.stored import QUEUE
from redrive.mailbox import Mailbox
from redrive.office.archive.restore import restore
from redrive.office.documents.letters import letter_document, shown_message
from redrive.office.export import Export, Format
from redrive.office.masking import UNMASKED, Mask
from redrive.office.retention.duty import Retention
from redrive.testing import Clock, dead_letters, run_until_idle
from tests.conformance.makers import keys

from .conftest import make_gateway
from .test_sending import mail

DIES = "fail-3-then-ok@example.org"
TEXT = "Your order is on its way."
_DAY_MS = 86_400_000


@pytest.fixture(params=["sqlite", "redis"])
async def app(request: pytest.FixtureRequest, tmp_path: Path, inbox: Mailbox) -> AsyncIterator[Redrive]:
    flags: dict[str, Any] = {}
    if request.param == "redis":
        server = request.getfixturevalue("redis_url")
        flags["store"] = f"{server}?prefix=test:{uuid.uuid4().hex[:12]}"
    async with make_gateway(tmp_path, inbox.url, **flags) as made:
        yield made


async def _one_of_three_dies(app: Redrive) -> tuple[str, DeadLetter]:
    """The id of the mail, and the letter of the one that died."""
    recipients = ("ok+1@example.org", DIES, "ok+2@example.org")
    receipt = await app.mail.submit(mail(*recipients), tenant="acme")
    await run_until_idle(app, clock=Clock(app))
    (letter,) = await dead_letters(app)
    return receipt.id, letter


async def test_a_letter_of_one_of_many_is_shown_with_its_mail(app: Redrive) -> None:
    _, letter = await _one_of_three_dies(app)
    shown = letter_document(letter, UNMASKED, None).original_data
    assert (shown["to"], TEXT in shown["content"]) == ([DIES], True)
    account = await app.store.get(letter.message.id)
    assert account is not None
    assert shown_message(account, UNMASKED, "").original_data == shown
    exported = json.loads(Export(Format.JSONL, UNMASKED, None).rows([letter]))
    assert exported["originalData"] == shown
    masked = json.loads(Export(Format.JSONL, Mask.parse("content"), None).rows([letter]))
    assert (masked["originalData"]["content"], TEXT in json.dumps(masked)) == (MASKED, False)


async def test_an_archived_recipient_comes_back_and_gets_the_mail_once(
    app: Redrive, inbox: Mailbox, tmp_path: Path
) -> None:
    mail_id, letter = await _one_of_three_dies(app)
    store, folder = app.store, tmp_path / "archive"
    retention = Retention(store, RetentionSettings(folder=str(folder)))
    store.skew_ms += 7 * _DAY_MS
    await retention.step()
    store.skew_ms += _DAY_MS + 1
    await retention.step()
    assert await dead_letters(app) == []
    store.skew_ms += 30 * _DAY_MS
    while await store.cleanup(Cleanup(store.now(), keep=0)):
        pass
    assert await store.get(mail_id) is None
    (path,) = folder.glob("*.jsonl.gz")
    assert [len(page.ids) async for page in restore(store, path)] == [1]
    assert await dead_letters(app) == [letter]
    await store.redrive(QUEUE, keys([letter.message.id]), actor="ana")
    assert await run_until_idle(app) == {"done": 1}
    (received,) = inbox.find(to=DIES)
    assert received.message_id == f"<{mail_id}@acme.example>"
    assert TEXT.encode() in received.content
    assert len(inbox.received) == 3
    (counts,) = await store.queues()
    assert (counts.published, counts.dlq) == (3, 0)
    parent = await store.get(mail_id)
    assert parent is None or parent.message.body == b""
