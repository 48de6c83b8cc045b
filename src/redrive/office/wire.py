"""The documents as plain dicts, for the command line until it prints the documents themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from redrive.core.lanes import Lane
from redrive.core.letters import Account, DeadLetter
from redrive.core.settings import RetentionSettings
from redrive.office.documents import control, letters
from redrive.office.documents.document import instant
from redrive.office.masking import UNMASKED
from redrive.office.queues import QueueStatus

__all__ = ["account_document", "instant", "lane_document", "letter_document", "queue_document"]


def letter_document(letter: DeadLetter) -> Any:
    ttl_ms = round((RetentionSettings().keep_s or 0) * 1000)
    return msgspec.to_builtins(letters.letter_document(letter, UNMASKED, ttl_ms))


def account_document(account: Account) -> Any:
    document = msgspec.to_builtins(letters.shown_message(account, UNMASKED, ""))
    del document["why"]
    return document


def queue_document(status: QueueStatus) -> Any:
    return msgspec.to_builtins(control.queue_document(status))


def lane_document(lane: Lane) -> Any:
    return msgspec.to_builtins(control.lane_document(lane))
