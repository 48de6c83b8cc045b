"""Operations: bulk actions on dead letters that survive any crash (DESIGN, "Re-drive is an operation").

Preview, freeze, canary, move at a rate, halt by itself, pause, resume, cancel. `operation.py` says what one
is, `rules.py` decides, `steps.py` acts, `conductor.py` carries on, `desk.py` is where people ask.
"""

from redrive.office.operations.conductor import Conductor
from redrive.office.operations.desk import Operations, Preview
from redrive.office.operations.finding import Chooser
from redrive.office.operations.operation import (
    Kind,
    MaskedBody,
    NoOperation,
    Operation,
    OperationError,
    OperationState,
    Order,
    Selection,
)
from redrive.office.operations.progress import Snapshot

__all__ = [
    "Chooser",
    "Conductor",
    "Kind",
    "MaskedBody",
    "NoOperation",
    "Operation",
    "OperationError",
    "OperationState",
    "Operations",
    "Order",
    "Preview",
    "Selection",
    "Snapshot",
]
