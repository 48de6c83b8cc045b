"""Requests made from an operation's own description, right and wrong ones: it answers as it says."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from redrive.office.access import Role
from tests.web.background import Served

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
]


def check_answers(served: Served, operation: Any, role: Role, mode: GenerationMode, examples: int) -> None:
    """Ask an operation of the description so many times, with a key of this role."""
    headers = {"Authorization": f"Bearer {served.keys[role]}"}

    @seed(4)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        case.call_and_validate(base_url=served.url, headers=headers, checks=CHECKS)

    check()
