"""What the process manager is told: ready, and stopping; the datagrams of systemd's notify protocol.

Without NOTIFY_SOCKET nobody asks, and nothing is said. Never an error and never a wait: a manager that does
not listen may not stop the work.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def say_ready(status: str) -> None:
    """The process does its work now."""
    _say(f"READY=1\nSTATUS={status}")


def say_stopping(status: str) -> None:
    """The process was asked to end, and finishes what it has begun."""
    _say(f"STOPPING=1\nSTATUS={status}")


def _say(text: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(text.encode(), address)
