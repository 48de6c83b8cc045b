"""How the outbox does, as it goes out."""

from __future__ import annotations

from redrive.core.condition import Durability
from redrive.office.documents.alerts import AlertDocument
from redrive.office.documents.document import Document


class OutboxMetrics(Document, frozen=True):
    """The counts by state over all queues; `bounced` are those of `dlq` whose recipient is refused.

    `failed` is always 0, kept for older dashboards.
    """

    pending: int
    processing: int
    published: int
    failed: int
    dlq: int
    bounced: int
    retry_scheduled: int
    scheduled: int


class OutboxAlerts(Document, frozen=True):
    """Whether there are too many dead letters besides those that bounced (100) and too many waiting retries
    (1,000), now and as the rules of these names have it; and every alert that fires."""

    dlq_high: bool
    retry_backlog: bool
    firing: list[AlertDocument]


class Versions(Document, frozen=True):
    """What runs; `store` is empty where the server does not tell."""

    redrive: str
    python: str
    store: str


class OutboxHealth(Document, frozen=True):
    """`healthy`, or `unhealthy` with too many dead letters that did not bounce, or a critical alert."""

    status: str
    metrics: OutboxMetrics
    alerts: OutboxAlerts
    durability: Durability
    versions: Versions


SCHEMAS = (OutboxHealth,)
