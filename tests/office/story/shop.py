"""The shop of the story: a handler that fails for five causes, each until the file `mended` names it.

It is copied into a folder and run there by real workers, so it imports nothing of the tests. Every attempt
leaves one line in `attempts` before it ends: the ledger of what was handed over.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from redrive import Delivery, Permanent, Redrive, RetryPolicy, Temporary

QUEUE = "email:send"

app = Redrive()


@app.handler(QUEUE, retry=RetryPolicy(attempts=2, base_s=0.01, cap_s=0.01), concurrency=50)
async def send(order: dict[str, Any], delivery: Delivery) -> None:
    mended = order["cause"] in _mended()
    _write(delivery, "sent" if mended else "failed")
    if not mended:
        raise _failure(order["cause"], order["number"])


def _write(delivery: Delivery, end: str) -> None:
    progress = delivery.progress
    line = f"{delivery.message.id} {progress.generation} {progress.attempts} {end}\n"
    os.write(_ledger(), line.encode())


@cache
def _ledger() -> int:
    """Opened with the first attempt: whoever only imports this leaves no file behind."""
    return os.open("attempts", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def _mended() -> list[str]:
    file = Path("mended")
    return file.read_text().split() if file.exists() else []


def _failure(cause: str, number: int) -> Exception:
    match cause:
        case "relay":
            return Temporary(f"421 4.7.0 too busy for order {number}, try again", code="421")
        case "mailbox":
            return Permanent("552 5.2.2 mailbox full", code="552")
        case "template":
            return FileNotFoundError(2, "No such file or directory", "welcome.html")
        case "policy":
            return Permanent("550 5.7.1 blocked by policy", code="550")
        case _:
            return Permanent(f"order {number} has no recipient", code="422")
