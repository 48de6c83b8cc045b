"""What the operator of the story can do, whatever it is done with; and the command line as one such hand.

Documents are the product's own JSON. An operation is started and watched by its id, so that the same story
can be played over HTTP, where starting does not wait.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from tests.office.story.site import Site

Document = dict[str, Any]


class Hand(Protocol):
    """The verbs of the story."""

    async def begin(self) -> None:
        """Start whatever runs the handlers, and what the hand itself needs."""

    async def end(self) -> None:
        """Let go of what `begin` took."""

    async def groups(self, filter: str = "") -> list[Document]: ...  # noqa: A002 - as the flag

    async def letter(self, message_id: str) -> Document: ...

    async def preview(self, filter: str) -> Document: ...  # noqa: A002

    async def redrive(self, filter: str, *, canary: int, rate: str) -> str:  # noqa: A002
        """Start one; its id, while it goes on."""

    async def operation(self, operation_id: str) -> Document: ...

    async def wait(self, operation_id: str) -> Document:
        """The operation once it stands, or has ended and what came of each letter is known."""

    async def tell(self, operation_id: str, verb: str) -> Document:
        """Pause, resume or cancel."""

    async def note(self, fingerprint: str, text: str) -> None: ...

    async def audit(self) -> list[Document]: ...

    async def verify(self) -> Document: ...


@dataclass
class CommandLine:
    """`redrive`, each command a process of its own. What it started goes on when it is left."""

    site: Site

    async def begin(self) -> None:
        self.site.start("worker", "shop:app", "--log-level", "error")

    async def end(self) -> None:
        """Processes end with the site."""

    async def groups(self, filter: str = "") -> list[Document]:  # noqa: A002
        return list((await self._ask("dlq", "groups", "--filter", filter))["groups"])

    async def letter(self, message_id: str) -> Document:
        return await self._ask("dlq", "show", message_id)

    async def preview(self, filter: str) -> Document:  # noqa: A002
        wanted = await self._ask("dlq", "redrive", *_which(filter), "--dry-run")
        return dict(wanted["preview"])

    async def redrive(self, filter: str, *, canary: int, rate: str) -> str:  # noqa: A002
        known = await self.site.operations()
        going = ("--canary", str(canary), "--rate", rate, "--yes")
        process = self.site.start("dlq", "redrive", *_which(filter), *going, "--json")

        async def is_started() -> bool:
            return await self.site.operations() > known or process.poll() is not None

        await self.site.wait_until(is_started, "the re-drive is written down")
        (started,) = await self.site.operations() - known
        return started

    async def operation(self, operation_id: str) -> Document:
        return await self._ask("ops", "show", operation_id)

    async def wait(self, operation_id: str) -> Document:
        stood = await self.site.finish("ops", "wait", operation_id, "--json")
        found: Document = json.loads(stood.stdout)["operation"]
        assert stood.returncode == (0 if found["state"] == "finished" else 3), stood
        return found

    async def tell(self, operation_id: str, verb: str) -> Document:
        return await self._ask("ops", verb, operation_id)

    async def note(self, fingerprint: str, text: str) -> None:
        await self._ask("dlq", "group", "note", fingerprint, text)

    async def audit(self) -> list[Document]:
        return list((await self._ask("audit", "list", "--limit", "500"))["rows"])

    async def verify(self) -> Document:
        return await self._ask("audit", "verify")

    async def _ask(self, *arguments: str) -> Document:
        ended = await self.site.finish(*arguments, "--json")
        assert (ended.returncode, ended.stderr) == (0, ""), (arguments, ended)
        return dict(json.loads(ended.stdout))


def _which(filter: str) -> tuple[str, ...]:  # noqa: A002
    return ("--filter", filter) if filter else ("--all",)
