"""A Django EMAIL_BACKEND: what Django sends is accepted by Redrive, then delivered with retries.

`EMAIL_BACKEND = "redrive.django.EmailBackend"`; the tenant is `REDRIVE_TENANT` in Django's settings, or
the mail's own `X-Redrive-Tenant` header, which is removed. Settings of the store are Redrive's own
(`redrive.toml`, `REDRIVE_*`). Accepted is not delivered: see `redrive dlq list` for what was not.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from email.message import EmailMessage as StandardMessage
from email.message import Message
from email.policy import SMTP
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from redrive.app import Redrive
from redrive.core.errors import RedriveError
from redrive.core.message import DEFAULT_TENANT

_TENANT_HEADER = "X-Redrive-Tenant"
_lock = threading.Lock()
_apps: list[Redrive] = []


def _renew_lock() -> None:
    """In a forked child: whoever held the lock stayed behind."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _app() -> Redrive:
    """One app a process, made with the first mail."""
    with _lock:
        if not _apps:
            _apps.append(Redrive())
        return _apps[0]


class EmailBackend(BaseEmailBackend):  # type: ignore[misc]  # Django ships no types
    """Hands Django's mails in; each is accepted alone."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """How many were accepted. With fail_silently, what is refused is only not counted."""
        accepted = 0
        for message in email_messages:
            try:
                accepted += _submit(message)
            except RedriveError:
                if not self.fail_silently:
                    raise
        return accepted


def _submit(message: EmailMessage) -> int:
    if not message.recipients():
        return 0
    standard = _standard(message.message())
    if message.bcc:
        standard["Bcc"] = ", ".join(message.bcc)
    tenant = standard[_TENANT_HEADER] or getattr(settings, "REDRIVE_TENANT", DEFAULT_TENANT)
    del standard[_TENANT_HEADER]
    _app().sync.submit_mail(standard, tenant=str(tenant))
    return 1


def _standard(message: Message[Any, Any]) -> StandardMessage:
    """Django's older messages are of the compat32 policy; read again, they are of today's."""
    if isinstance(message, StandardMessage):
        return message
    from email import message_from_bytes

    read = message_from_bytes(message.as_bytes(), policy=SMTP)
    assert isinstance(read, StandardMessage)  # noqa: S101 - that is what the policy makes
    return read
