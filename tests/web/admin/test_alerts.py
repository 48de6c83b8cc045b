"""Alerts over HTTP: what fires, silences with who made them, and what a tenant's key sees."""

from __future__ import annotations

import httpx

from redrive import Redrive
from redrive.core.alert_rules import DEFAULT_RULES
from redrive.office.alerts.watch import AlertWatch
from tests.conformance.makers import dead
from tests.web.admin.asking import DLQ, good, rows_of
from tests.web.problems import problem


async def test_what_fires_is_listed_and_a_tenants_key_sees_its_own_alone(
    app: Redrive, operator: httpx.AsyncClient, acme_operator: httpx.AsyncClient
) -> None:
    await dead(app.store, 51, tenant="acme")
    await dead(app.store, 51, tenant="globex")
    await AlertWatch(app.office).look()
    listed = good(await operator.get(f"{DLQ}/alerts"))
    seen = {(one["alert"], one["companyId"]) for one in listed["alerts"]}
    assert seen >= {("dlq_high", None), ("tenant_dlq", "acme"), ("tenant_dlq", "globex")}
    own = good(await acme_operator.get(f"{DLQ}/alerts"))
    assert [(one["alert"], one["companyId"]) for one in own["alerts"]] == [("tenant_dlq", "acme")]
    assert "globex" not in str(own)
    assert {one["name"] for one in good(await operator.get(f"{DLQ}/alerts/rules"))["rules"]} == set(
        DEFAULT_RULES
    )


async def test_a_silence_is_made_listed_audited_and_ended(
    operator: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    body = {"alert": "dlq_high", "forS": 3600, "why": "deploying"}
    made = good(await operator.post(f"{DLQ}/alerts/silences", json=body))
    (listed,) = good(await operator.get(f"{DLQ}/alerts"))["silences"]
    assert listed == made
    assert "operator" in listed["actor"]
    good(await operator.delete(f"{DLQ}/alerts/silences/{made['id']}"))
    problem(await operator.delete(f"{DLQ}/alerts/silences/{made['id']}"), 404, "not-found")
    assert len(await rows_of(admin, verb="silence alert")) == 2
    assert len(await rows_of(admin, verb="unsilence alert")) == 2
    wrong = problem(
        await operator.post(f"{DLQ}/alerts/silences", json={**body, "alert": "dlq_hihg"}), 422, "invalid"
    )
    assert "did you mean dlq_high?" in wrong["detail"]
