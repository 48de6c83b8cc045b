"""The mailbox simulator: a mail server whose behaviour is chosen by the recipient's local part.

`ok@` is accepted, `reply-550-5.1.1@` is refused with that reply, `drop-after-dot@` is kept although the
client cannot know; docs/mailbox.md has the whole table. Nothing is ever sent on.
"""

from __future__ import annotations

from redrive.mailbox.received import Attempt, Received
from redrive.mailbox.server import Mailbox, serve
from redrive.mailbox.settings import MailboxSettings, MailboxUser, server_tls

__all__ = ["Attempt", "Mailbox", "MailboxSettings", "MailboxUser", "Received", "serve", "server_tls"]
