"""The words around the live page: where things listen, the first keys, and what to try next."""

from __future__ import annotations

from rich.text import Text

from redrive.cli.gateway import RunningGateway
from redrive.cli.output import clean

_MAIL = '{"from": "a@acme.example", "to": "ok@b.example", "subject": "Hi", "text": "Hello"}'


def head(gateway: RunningGateway, title: str) -> list[Text]:
    """Where things listen and are kept; on the first start, the admin's key."""
    simulated = "the simulator: nothing leaves this machine" if gateway.mailbox else "the relay"
    described = gateway.described
    lines = [
        Text.assemble(
            (f"{title:<12}", "bold"), (gateway.api.url, "bold"), f"  API page at {gateway.api.url}/docs"
        ),
        Text.assemble(("mail to     ", "dim"), clean(gateway.relay), (f"  {simulated}", "dim")),
        Text.assemble(
            ("store       ", "dim"), clean(described.url), (f"  durability {described.durability}", "green")
        ),
    ]
    if gateway.api.admin_key is not None:
        lines.append(_key_line("admin key", gateway.api.admin_key))
    return lines


def welcome(gateway: RunningGateway, title: str) -> list[Text]:
    """What is printed at the start, and only then: with the first keys, a way to use them."""
    return [*head(gateway, title), *(_try_it(gateway) if gateway.api.submit_key else []), Text()]


def hints(gateway: RunningGateway | None, last_dead: str | None) -> list[Text]:
    """What to try, in another terminal or afterwards."""
    life = f"redrive show {last_dead}" if last_dead else "redrive status"
    return [
        *(_try_it(gateway) if gateway is not None else []),
        Text("look closer redrive mailbox list, redrive dlq list", "cyan"),
        Text(f"            {life}", "cyan"),
        Text("bring back  redrive dlq redrive --all", "cyan"),
        *([Text("end         Ctrl-C", "cyan")] if gateway is not None else []),
    ]


def _try_it(gateway: RunningGateway) -> list[Text]:
    key = gateway.api.submit_key
    if key is None:
        return [
            Text("try it      redrive mail send --from a@acme.example --to ok@b.example --text Hi", "cyan")
        ]
    return [
        Text(f"KEY={key}", "bold"),
        Text(f'curl {gateway.api.url}/v1/emails -H "Authorization: Bearer $KEY" --json \\', "cyan"),
        Text(f"'{_MAIL}'", "cyan"),
    ]


def _key_line(what: str, key: str) -> Text:
    return Text.assemble((f"{what:<12}", "dim"), (key, "bold"), ("  once", "yellow"))
