"""Redrive: handlers with retries that never lose a message, and an office for what failed."""

from redrive.app import Redrive
from redrive.core.errors import Conflict, InvalidMessage, Later, Permanent, RedriveError, Temporary, Uncertain
from redrive.core.message import Delivery
from redrive.core.ports import Receipt
from redrive.core.retry import RetryPolicy
from redrive.engine.entries import Submission
from redrive.version import __version__

__all__ = [
    "Conflict",
    "Delivery",
    "InvalidMessage",
    "Later",
    "Permanent",
    "Receipt",
    "Redrive",
    "RedriveError",
    "RetryPolicy",
    "Submission",
    "Temporary",
    "Uncertain",
    "__version__",
]
