"""The dead-letter office of one open store: one face for the command line, the API, pages and Python.

`Office(…).acting(actor, scope)` has every verb that people have, by what it is about. The office knows tenant
scope, masks, revealing with its row in the audit, paging and previews; a face reads what was asked, calls one
verb and renders what comes back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from redrive.core.settings import OfficeSettings, RetentionSettings
from redrive.office.access import Access
from redrive.office.alerts import Alerts
from redrive.office.alerts.channels import Alerting
from redrive.office.audit import Actor, Audit
from redrive.office.destinations import Destinations
from redrive.office.groups import Groups
from redrive.office.health import OutboxCheck
from redrive.office.index import Index
from redrive.office.letters import Letters
from redrive.office.masking import Mask
from redrive.office.message_list import MessageList
from redrive.office.messages import Messages
from redrive.office.operations import Operations
from redrive.office.operations.bodies import BodyRules
from redrive.office.operations.choice import Policy
from redrive.office.overview import Overview
from redrive.office.ports import OfficeStore
from redrive.office.queues import Queues
from redrive.office.saved_views import SavedViews
from redrive.office.sessions import Sessions
from redrive.office.sql import Sql
from redrive.office.suggestions import Suggestions
from redrive.office.tenants import Tenants
from redrive.office.view import View

if TYPE_CHECKING:
    from redrive.telemetry.traces import Traces


@dataclass(frozen=True, slots=True)
class Office:
    """The office of a store. `policy` is how a queue retries, `bodies` what a queue takes that has a form,
    `traces` makes a span of each re-drive, `alerting` is what is watched and who is told."""

    store: OfficeStore
    index: Index
    policy: Policy
    settings: OfficeSettings
    retention: RetentionSettings
    bodies: BodyRules = field(default_factory=dict)
    traces: Traces | None = None
    alerting: Alerting = field(default_factory=Alerting)

    @property
    def mask(self) -> Mask:
        """What letters are shown with."""
        return Mask.parse(self.settings.masked)

    @property
    def ttl_ms(self) -> int | None:
        """How long dead letters are kept; None is without end."""
        return None if self.retention.keep_s is None else round(1000 * self.retention.keep_s)

    def acting(
        self, actor: Actor, scope: str | None = None, *, reveals: bool = True, files: bool = False
    ) -> ActingOffice:
        """The verbs for one actor, within the tenant that it is bound to.

        `reveals`: it may see payloads without masks. `files`: it may name files of this machine, which is
        for people on it and never for callers from outside.
        """
        return ActingOffice(self, actor, scope, reveals=reveals, files=files)


class ActingOffice:
    """The verbs of the office, for one actor."""

    def __init__(
        self, office: Office, actor: Actor, scope: str | None, *, reveals: bool, files: bool
    ) -> None:
        self._office = office
        self._store = office.store
        self._files = files
        self.actor = actor
        self.view = View(office.store, actor, scope, office.mask, reveals=reveals)

    @cached_property
    def letters(self) -> Letters:
        return Letters(self._office, self.actor, self.view, self.queues, self.messages)

    @cached_property
    def messages(self) -> Messages:
        return Messages(self._office, self.actor, self.view)

    @cached_property
    def message_list(self) -> MessageList:
        return MessageList(self._store, self.actor, self.view, self.queues, self.tenants)

    @cached_property
    def operations(self) -> Operations:
        return Operations(self._office, self.actor, self.view, files=self._files)

    @cached_property
    def groups(self) -> Groups:
        return Groups(self._office, self.actor, self.letters, self.view.scope)

    @cached_property
    def queues(self) -> Queues:
        return Queues(self._store, self.actor, self.view)

    @cached_property
    def tenants(self) -> Tenants:
        return Tenants(self._store, self.actor, self.view, self.queues)

    @cached_property
    def overview(self) -> Overview:
        return Overview(self._office, self.view, self.groups, self.operations, self.alerts, files=self._files)

    @cached_property
    def access(self) -> Access:
        return Access(self._store, self.actor, reveals=self.view.reveals)

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(self._store, self.actor)

    @cached_property
    def alerts(self) -> Alerts:
        return Alerts(self._store, self._office.alerting, self.actor, self.view)

    @cached_property
    def saved_views(self) -> SavedViews:
        return SavedViews(self._store, self.actor, self.view)

    @cached_property
    def suggestions(self) -> Suggestions:
        return Suggestions(self._office.index, self.view)

    @cached_property
    def destinations(self) -> Destinations:
        return Destinations(self._office.index, self.view, self.letters)

    @cached_property
    def outbox(self) -> OutboxCheck:
        return OutboxCheck(self._office, self.view, self.alerts)

    @cached_property
    def sql(self) -> Sql:
        return Sql(self._office, self.actor, self.view)

    @cached_property
    def audit(self) -> Audit:
        return Audit(self._store, self.view)
