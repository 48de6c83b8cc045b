"""What the HTTP routes ask of the mail desk; `redrive.mail.desk.Desk` is the real one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from redrive.core.grants import SenderDomains
from redrive.core.ports import Receipt
from redrive.mail.desk import MailRequest, MailStatus


class MailDesk(Protocol):
    """Where mails are handed in and asked about."""

    async def submit_many(
        self, requests: Sequence[MailRequest], *, tenant: str, senders: SenderDomains
    ) -> list[Receipt]:
        """Accept mails in one durable write, all or nothing; raises what `Desk` does."""
        ...

    async def find(self, mail_id: str) -> MailStatus | None:
        """A mail with the state of each recipient; None when it is not known or is no mail."""
        ...
