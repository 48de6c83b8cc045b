"""The documents as plain dicts, for the command line until it prints the documents themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from redrive.office.documents import control, operations
from redrive.office.operations.desk import Preview
from redrive.office.operations.progress import Snapshot

row_document = control.row_document


def preview_document(preview: Preview) -> Any:
    return msgspec.to_builtins(operations.preview_document(preview))


def operation_document(seen: Snapshot) -> Any:
    return msgspec.to_builtins(operations.operation_document(seen))
