"""Redrive: handlers with retries that never lose a message, and an office for what failed.

What is more than an error is imported at its first use: `redrive --help` loads no store and no event loop.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from redrive.core.errors import (
    ConfigurationError,
    Conflict,
    Hold,
    InvalidMessage,
    Later,
    Permanent,
    RedriveError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Temporary,
    Uncertain,
)
from redrive.version import __version__

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.core.lanes import priority
    from redrive.core.letters import DeadLetter
    from redrive.core.message import Delivery
    from redrive.core.ports import Receipt
    from redrive.core.retry import RetryPolicy, delay_s
    from redrive.engine.entries import Submission
    from redrive.engine.failures import is_retryable
    from redrive.office.documents.letters import check_entry
    from redrive.telemetry.log_format import configure_logs as logs

__all__ = [
    "ConfigurationError",
    "Conflict",
    "DeadLetter",
    "Delivery",
    "Hold",
    "InvalidMessage",
    "Later",
    "Permanent",
    "Receipt",
    "Redrive",
    "RedriveError",
    "RetryPolicy",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "Submission",
    "Temporary",
    "Uncertain",
    "__version__",
    "check_entry",
    "delay_s",
    "is_retryable",
    "logs",
    "priority",
]

_PLACES = {
    "DeadLetter": "redrive.core.letters",
    "Delivery": "redrive.core.message",
    "Receipt": "redrive.core.ports",
    "Redrive": "redrive.app",
    "RetryPolicy": "redrive.core.retry",
    "Submission": "redrive.engine.entries",
    "check_entry": "redrive.office.documents.letters",
    "delay_s": "redrive.core.retry",
    "is_retryable": "redrive.engine.failures",
    "logs": "redrive.telemetry.log_format",
    "priority": "redrive.core.lanes",
}
_NAMES = {"logs": "configure_logs"}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), _NAMES.get(name, name))
