"""Hands kept notices to their channels, in order, and notes which took them.

A channel that fails is left alone for a while that grows to ten minutes; its notices wait, those of others do
not. After a day a notice is given up, and that is told. Every channel sends beside the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from redrive.core.errors import ConfigurationError
from redrive.office.alerts import records
from redrive.office.alerts.channels import ChannelError
from redrive.office.alerts.records import AlertNotice, ChannelState
from redrive.telemetry.events import ChannelBack, ChannelFailed, Event, NoticeDropped

if TYPE_CHECKING:
    from redrive.office.office import Office

_FIRST_MS, _LONGEST_MS = 10_000, 600_000
_DAY_MS = 86_400_000
_PATIENCE_S = 40.0
"""How long one notice may take, and about how long a channel sends before others are looked at again."""

_TOLD_AGAIN = 20


class NoticeSender:
    """Sends what alerts have kept."""

    def __init__(self, office: Office, emit: Callable[[Event], None]) -> None:
        self._store = office.store
        self._desk = office.alerting
        self._emit = emit

    async def send(self) -> int | None:
        """Send what is due; the instant when more may be, None when nothing waits."""
        waiting: dict[str, list[AlertNotice]] = {}
        async for alert, _ in records.every_alert(self._store):
            for notice in alert.notices:
                for name in notice.left:
                    waiting.setdefault(name, []).append(notice)
        if not waiting:
            return None
        ended = await asyncio.gather(
            *(self._send_to(name, sorted(found, key=lambda one: one.at)) for name, found in waiting.items()),
            return_exceptions=True,
        )
        for one in ended:
            if isinstance(one, BaseException):
                raise one
        return min((at for at in ended if isinstance(at, int)), default=None)

    async def _send_to(self, name: str, notices: list[AlertNotice]) -> int | None:
        """Send one channel's notices, the oldest first, until it fails; when it is to be tried again."""
        state = await records.channel_state(self._store, name)
        now = self._store.now()
        for notice in [one for one in notices if now - one.at > _DAY_MS]:
            await records.note_taken(self._store, notice, name)
            self._emit(NoticeDropped(name, notice.rule, notice.text))
        due = [one for one in notices if now - one.at <= _DAY_MS]
        if now < state.next_at and due:
            return state.next_at
        ends_s = time.monotonic() + _PATIENCE_S
        for sent, notice in enumerate(due):
            if sent and time.monotonic() > ends_s:
                return now
            problem = await self._hand_over(name, notice)
            if problem is not None:
                return await self._failed(name, state, problem)
            await records.note_taken(self._store, notice, name)
            state = await self._worked(name, state)
        return None

    async def _hand_over(self, name: str, notice: AlertNotice) -> str | None:
        """Why a channel did not take a notice, None when it did."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._desk.channel(name).send(notice)
        except TimeoutError:
            return f"it did not answer within {_PATIENCE_S:g} s"
        except (ChannelError, ConfigurationError) as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - a channel's own mistake is a failure to be tried again
            return f"it failed with {type(error).__name__}"
        return None

    async def _failed(self, name: str, before: ChannelState, problem: str) -> int:
        attempts, now = before.attempts + 1, self._store.now()
        pause_ms = min(_LONGEST_MS, _FIRST_MS * 2 ** min(attempts - 1, 10))
        state = ChannelState(
            failing_at=before.failing_at or now,
            attempts=attempts,
            next_at=now + pause_ms,
            problem=problem,
            sent_at=before.sent_at,
        )
        await records.keep_channel_state(self._store, name, state)
        if attempts == 1 or attempts % _TOLD_AGAIN == 0:
            self._emit(ChannelFailed(name, problem, attempts))
        return state.next_at

    async def _worked(self, name: str, before: ChannelState) -> ChannelState:
        state = ChannelState(sent_at=self._store.now())
        await records.keep_channel_state(self._store, name, state)
        if before.attempts:
            self._emit(ChannelBack(name, before.attempts))
        return state
