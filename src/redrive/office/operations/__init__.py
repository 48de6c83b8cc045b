"""Operations: bulk actions on dead letters that survive any crash (DESIGN, "Re-drive is an operation").

Preview, freeze, canary, move at a rate, halt by itself, pause, resume, cancel. `operation.py` says what one
is, `rules.py` decides, `steps.py` acts, `conductor.py` carries on, `operations.py` is where people ask.
"""

from redrive.office.operations.choice import Chooser
from redrive.office.operations.conductor import Conductor
from redrive.office.operations.operation import (
    MaskedBody,
    NoOperation,
    Operation,
    OperationError,
    OperationKind,
    OperationState,
    Order,
    Selection,
)
from redrive.office.operations.operations import Operations
from redrive.office.operations.preview import Preview
from redrive.office.operations.progress import Snapshot

__all__ = [
    "Chooser",
    "Conductor",
    "MaskedBody",
    "NoOperation",
    "Operation",
    "OperationError",
    "OperationKind",
    "OperationState",
    "Operations",
    "Order",
    "Preview",
    "Selection",
    "Snapshot",
]
