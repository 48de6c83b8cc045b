"""Redrive: handlers with retries that never lose a message, and an office for what failed."""

from redrive.app import Redrive
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
from redrive.core.message import Delivery
from redrive.core.ports import Receipt
from redrive.core.retry import RetryPolicy
from redrive.engine.entries import Submission
from redrive.version import __version__

__all__ = [
    "ConfigurationError",
    "Conflict",
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
]
