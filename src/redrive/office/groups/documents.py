"""The documents as plain dicts, for the command line until it prints the documents themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from redrive.office.documents import groups
from redrive.office.groups import Group, Said


def group_document(one: Group) -> Any:
    return msgspec.to_builtins(groups.group_document(one))


def said_document(said: Said) -> Any:
    return msgspec.to_builtins(groups.said_document(said))
