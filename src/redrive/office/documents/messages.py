"""Lists of messages, and what was removed of them, as they go out."""

from __future__ import annotations

from redrive.core.letters import Listed
from redrive.core.values import instant
from redrive.office.documents.document import Document


class ListedMessage(Document, frozen=True):
    """One message of a list, without its payload; `state` is waiting, scheduled, running, done or removed."""

    job_id: str
    queue: str
    company_id: str
    state: str
    enqueued_at: str
    due_at: str
    attempts: int
    redrives: int
    lease_until_at: str | None
    finished_at: str | None
    removed_by: str | None
    move: str | None


class MessageListDocument(Document, frozen=True):
    """Some messages; a short page is not the last one, `cursor` is null at the end."""

    messages: list[ListedMessage]
    cursor: str | None


class MovedMessage(Document, frozen=True):
    """What became of one message by its id: `removed` or `due now`."""

    job_id: str
    queue: str
    verb: str
    result: str


class RemovedMessages(Document, frozen=True):
    """How many waiting messages of a tenant were removed, and how many still wait."""

    company_id: str
    removed: int
    waiting: int


def listed_message(listed: Listed) -> ListedMessage:
    """One message of a list."""
    removal = listed.removal
    return ListedMessage(
        job_id=listed.id,
        queue=listed.queue,
        company_id=listed.tenant,
        state=listed.phase.value,
        enqueued_at=instant(listed.enqueued_at),
        due_at=instant(listed.due_at),
        attempts=listed.attempts,
        redrives=listed.generation,
        lease_until_at=instant(listed.lease_until_at),
        finished_at=instant(listed.finished_at),
        removed_by=None if removal is None else removal.actor,
        move=None if removal is None else removal.move.value,
    )


SCHEMAS = (MessageListDocument, RemovedMessages)
