"""The words around the live page: where things listen, the first keys, and what to try next."""

from __future__ import annotations

from rich.text import Text

from redrive.cli.api import FirstKeys
from redrive.cli.gateway import RunningGateway
from redrive.cli.output import clean

ENDING = Text("end          Ctrl-C", "cyan")
_NO_KEYS = FirstKeys()
_MAIL = '{"from":"a@acme.example","to":"ok@b.example","subject":"Hi","text":"Hello"}'


def head(title: str, gateway: RunningGateway, keys: FirstKeys = _NO_KEYS) -> list[Text]:
    """Where things listen and are kept; on the first start, the admin's key."""
    simulated = "the simulator, nothing leaves this machine" if gateway.mailbox else "the relay"
    described = gateway.described
    lines = [
        Text.assemble(
            (f"{title:<13}", "bold"), (gateway.url, "bold"), (f"  its page is {gateway.url}/docs", "dim")
        ),
        Text.assemble(("mails go to  ", "dim"), clean(gateway.relay), (f"  {simulated}", "dim")),
        Text.assemble(
            ("store        ", "dim"), clean(described.url), (f"  durability {described.durability}", "green")
        ),
    ]
    if keys.admin is not None:
        lines.append(Text.assemble(("admin key    ", "dim"), (keys.admin, "bold"), ("  once", "yellow")))
    return lines


def trial(url: str, keys: FirstKeys) -> list[Text]:
    """A mail to send by oneself; on the first start over HTTP, with a key for it."""
    if keys.submit is None:
        return [
            Text("try it       redrive mail send --from a@acme.example --to ok@b.example --text Hi", "cyan")
        ]
    return [
        Text(f"KEY={keys.submit}", "bold"),
        Text(f'curl {url}/v1/emails -H "Authorization: Bearer $KEY" --json \\', "cyan"),
        Text(f"  '{_MAIL}'", "cyan"),
    ]


def welcome(gateway: RunningGateway, keys: FirstKeys) -> list[Text]:
    """What is printed at the start, before all else."""
    lines = head("redrive up", gateway, keys)
    if keys.submit is not None:
        lines.append(Text("Both keys are shown this once: keep them. A mail of your own:", "yellow"))
    return [*lines, *trial(gateway.url, keys), Text()]


def hints(last_dead: str | None, *, simulated: bool = True) -> list[Text]:
    """How to look closer, in another terminal or afterwards."""
    life = f"redrive show {last_dead}" if last_dead else "redrive status"
    inbox = "redrive mailbox list, " if simulated else ""
    return [
        Text(f"look closer  {inbox}redrive dlq list", "cyan"),
        Text(f"             {life}", "cyan"),
        Text("bring back   redrive dlq redrive --all", "cyan"),
    ]
