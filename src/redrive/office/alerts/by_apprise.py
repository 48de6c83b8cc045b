"""Channels of apprise: Slack, e-mail, Teams, Telegram and a hundred more, by the URLs of the operator's file.

Redirects are not followed. Apprise and what it sends with write URLs into their debug logs, and these hold
tokens: what they log while a notice is sent is kept back. Apprise does not say why a service took nothing.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from typing import Any
from warnings import catch_warnings, simplefilter

from redrive.core.alerts import AlertSeverity
from redrive.core.errors import ConfigurationError, MissingExtra
from redrive.office.alerts.channels import ChannelError, title
from redrive.office.alerts.records import AlertNotice, NoticeKind

_sending: ContextVar[bool] = ContextVar("redrive_sends_by_apprise", default=False)
_LOGGERS = ("apprise", "urllib3.connectionpool", "requests")
_TYPES = {AlertSeverity.INFO: "info", AlertSeverity.WARNING: "warning", AlertSeverity.CRITICAL: "failure"}


class ByApprise:
    """One URL of apprise."""

    def __init__(self, name: str, url: str) -> None:
        self._service = _instantiate(name, url)

    async def send(self, notice: AlertNotice) -> None:
        kind = "success" if notice.kind is NoticeKind.CLEARED else _TYPES[notice.severity]
        runbook = f"\nrunbook: {notice.runbook}" if notice.runbook else ""
        taken = await asyncio.to_thread(self._notify, title(notice), f"{notice.text}{runbook}", kind)
        if not taken:
            raise ChannelError(
                f"{self._service.service_name} did not take the notice, and apprise says no more"
            )

    def _notify(self, title: str, body: str, kind: str) -> bool:
        _sending.set(True)
        try:
            return bool(self._service.notify(title=title, body=body, notify_type=kind))
        except Exception as error:  # noqa: BLE001 - whatever a service's code raises may hold its URL
            raise ChannelError(f"apprise failed with {type(error).__name__}") from None


def _instantiate(name: str, url: str) -> Any:
    token = _sending.set(True)
    try:
        with catch_warnings():
            simplefilter("ignore", DeprecationWarning)  # what apprise's plugins import is theirs to fix
            service = _service(name, url)
    finally:
        _sending.reset(token)
    if service is None:
        raise ConfigurationError(
            f"the url ({url.partition('://')[0][:20]}://…) is none that apprise knows, or it is not whole: "
            "apprise's documentation lists them"
        )
    service.redirects = False
    return service


def _service(name: str, url: str) -> Any:
    try:
        import apprise
    except ModuleNotFoundError:
        raise MissingExtra(f"the channel {name}", "alerts") from None
    _keep_back()
    asset = apprise.AppriseAsset(app_id="Redrive", http_redirects=False, async_mode=False)
    return apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)


def _keep_back() -> None:
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if _not_sending not in logger.filters:
            logger.addFilter(_not_sending)


def _not_sending(_: logging.LogRecord) -> bool:
    return not _sending.get()
