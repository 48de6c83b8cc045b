"""Alerts: what fires, the rules, silences, and a test of a channel. A bound key sees its tenant's alerts."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec
from starlette.responses import Response

from redrive.office.alerts import LONGEST_SILENCE
from redrive.web.access import Call, Route
from redrive.web.admin.route import (
    OPERATE,
    READ,
    AdminRoom,
    AdminRoute,
    Flag,
    NoParameters,
    Parameters,
    asked,
)
from redrive.web.documents import decode, respond
from redrive.web.limits import read_json
from redrive.web.problems import NOT_FOUND

_BODY_BYTES = 64 * 1024
_LONGEST_S = LONGEST_SILENCE.total_seconds()


class ListAlerts(Parameters, frozen=True):
    """Which alerts."""

    all: Annotated[Flag, msgspec.Meta(description="Those that cleared within the last week too.")] = "false"


class SilenceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Tell nothing for `forS` seconds of an alert, of one subject of it, or without one of any."""

    alert: Annotated[str, msgspec.Meta(max_length=60)] | None = None
    subject: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    for_s: Annotated[float, msgspec.Meta(gt=0, le=_LONGEST_S)]
    why: Annotated[str, msgspec.Meta(max_length=500)] = ""


class ChannelBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The channel to test."""

    channel: Annotated[str, msgspec.Meta(max_length=60)]


_LIST = AdminRoute(
    method="GET",
    path="/alerts",
    name="listAlerts",
    summary="What fires, what is silenced, and how the channels do",
    allowed=READ,
    query=ListAlerts,
    document="AlertList",
)
_RULES = AdminRoute(
    method="GET",
    path="/alerts/rules",
    name="listAlertRules",
    summary="Every rule as it holds",
    allowed=READ,
    document="AlertRuleList",
    unbound=True,
)
_TEST = AdminRoute(
    method="POST",
    path="/alerts/test",
    name="testChannel",
    summary="Send a test through a channel",
    allowed=OPERATE,
    body="ChannelBody",
    document="ChannelTest",
    problems=(NOT_FOUND,),
    unbound=True,
)
_SILENCE = AdminRoute(
    method="POST",
    path="/alerts/silences",
    name="silenceAlert",
    summary="Tell nothing of an alert for a while",
    allowed=OPERATE,
    body="SilenceBody",
    document="SilenceDocument",
    unbound=True,
)
_UNSILENCE = AdminRoute(
    method="DELETE",
    path="/alerts/silences/{id}",
    name="unsilenceAlert",
    summary="End a silence",
    allowed=OPERATE,
    document="SilenceDocument",
    unbound=True,
)
_SILENCE_BODY = msgspec.json.Decoder(SilenceBody)
_CHANNEL_BODY = msgspec.json.Decoder(ChannelBody)


class AlertRoom(AdminRoom):
    """The routes."""

    def routes(self) -> list[Route]:
        return [
            _LIST.to(self.every),
            _RULES.to(self.rules),
            _TEST.to(self.test),
            _SILENCE.to(self.silence),
            _UNSILENCE.to(self.unsilence),
        ]

    async def every(self, call: Call) -> Response:
        query = asked(call, ListAlerts)
        return respond(200, await self.acting(call).alerts.list(every=query.all == "true"))

    async def rules(self, call: Call) -> Response:
        asked(call, NoParameters)
        return respond(200, self.acting(call).alerts.rules())

    async def test(self, call: Call) -> Response:
        asked(call, NoParameters)
        body = decode(_CHANNEL_BODY, await read_json(call.request, _BODY_BYTES))
        return respond(200, await self.acting(call).alerts.test(body.channel))

    async def silence(self, call: Call) -> Response:
        asked(call, NoParameters)
        body = decode(_SILENCE_BODY, await read_json(call.request, _BODY_BYTES))
        length = timedelta(seconds=body.for_s)
        return respond(
            200, await self.acting(call).alerts.silence(body.alert, body.subject, length, body.why)
        )

    async def unsilence(self, call: Call) -> Response:
        asked(call, NoParameters)
        return respond(200, await self.acting(call).alerts.unsilence(call.request.path_params["id"]))
