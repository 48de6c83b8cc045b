"""The same act elsewhere: an order as a line for the shell, and as a call of the API, to copy."""

from __future__ import annotations

import json
from shlex import quote
from typing import Any

from redrive.office.operations import OperationKind, Order


def shell_line(order: Order) -> str:
    """`redrive dlq …` for an order."""
    words = ["redrive", "dlq", order.kind.value, *order.selection.ids]
    if not order.selection.ids:
        words += ["--filter", order.selection.filter] if order.selection.filter else ["--all"]
    if order.canary is not None and order.kind is OperationKind.REDRIVE:
        words += ["--canary", str(order.canary)] if order.canary else ["--no-canary"]
    if order.rate is not None:
        words += ["--rate", order.rate]
    return " ".join(map(quote, words))


def curl_line(order: Order, url: str) -> str:
    """The call that starts the same operation."""
    body: dict[str, Any] = {"kind": order.kind.value}
    if order.selection.ids:
        body["ids"] = list(order.selection.ids)
    else:
        body["filter"] = order.selection.filter
    if order.canary is not None and order.kind is OperationKind.REDRIVE:
        body["canary"] = order.canary
    if order.rate is not None:
        body["rate"] = order.rate
    lines = [
        f"curl -X POST {url}/admin/dlq/operations",
        '-H "Authorization: Bearer $KEY"',
        "-H 'Content-Type: application/json'",
        f"-d {quote(json.dumps(body, ensure_ascii=False))}",
    ]
    return " \\\n  ".join(lines)
