"""RabbitMQ's management API, read for its lists: AMQP alone does not tell arguments and bindings.

Only reads. Known weakness: a broker whose statistics are switched off lists no queues.
"""

from __future__ import annotations

import asyncio
import json
import socket
from base64 import b64encode
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from redrive.brokers.rabbitmq.address import virtual_host
from redrive.brokers.rabbitmq.definitions import from_lists
from redrive.brokers.rabbitmq.topology import Topology
from redrive.core.errors import ConfigurationError, StoreError, StoreUnavailable

_PATIENCE_S = 30.0
_COLUMNS = "?columns=name,type,durable,auto_delete,arguments"


async def read_topology(management: str, amqp: str) -> Topology:
    """All that stands in the virtual host of an AMQP address; its user serves where there is no other."""
    parts = _address(management)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_PATIENCE_S)
    try:
        return await asyncio.to_thread(_read, connection, parts, amqp)
    except asyncio.CancelledError:
        if connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)  # the thread waits for what comes there
        raise


def _read(connection: HTTPConnection, parts: SplitResult, amqp: str) -> Topology:
    user = urlsplit(amqp)
    login = parts if parts.username else user
    name, password = unquote(login.username or "guest"), unquote(login.password or "guest")
    secret = b64encode(f"{name}:{password}".encode()).decode()
    here = quote(virtual_host(amqp), safe="")
    place = f"{parts.scheme}://{parts.hostname}:{connection.port}"
    base = parts.path.rstrip("/")
    try:
        return from_lists(
            _list(connection, f"{base}/api/exchanges/{here}", secret, place),
            _list(connection, f"{base}/api/queues/{here}{_COLUMNS}", secret, place),
            _list(connection, f"{base}/api/bindings/{here}", secret, place),
        )
    except (OSError, HTTPException) as error:
        raise StoreUnavailable(
            f"the management API at {place} does not answer ({error}): is the plugin rabbitmq_management on?"
        ) from error
    except (ValueError, TypeError, LookupError) as error:
        raise StoreError(
            f"{place} is not the management API of RabbitMQ: its port is 15672 unless it was configured"
        ) from error
    finally:
        connection.close()


def _address(management: str) -> SplitResult:
    try:
        parts = urlsplit(management)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise ConfigurationError(
        "--management is not an address of the API: write http://broker.example:15672"
    ) from None


def _list(connection: HTTPConnection, path: str, secret: str, place: str) -> list[dict[str, Any]]:
    connection.request("GET", path, headers={"Authorization": f"Basic {secret}"})
    reply = connection.getresponse()
    body = reply.read()
    if reply.status == 401:
        raise StoreError(
            f"the management API at {place} refuses this user: give one with the tag `management`"
        )
    if reply.status == 404:
        raise StoreError(
            f"the management API at {place} knows no such virtual host: check the address in `store`"
        )
    if reply.status != 200:
        raise StoreError(f"the management API at {place} answered {reply.status} to {path.partition('?')[0]}")
    rows: list[dict[str, Any]] = json.loads(body)
    return rows
