"""Topology files by careless and hostile hands: each mistake with its place and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive.brokers.rabbitmq.design_file import parse_design
from redrive.cli import run
from redrive.core.errors import ConfigurationError

BOUND = '[exchanges]\nevents = "topic"\n[queues."q.a"]\nbindings = '


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[queues."q.a"]\nretry_ttl_s = inf', "retry_ttl_s has inf: from 0.001 s"),
        ('[queues."q.a"]\nretry_ttl_s = nan', "retry_ttl_s has nan: from 0.001 s"),
        ('[queues."q.a"]\nretry = "backoff"\nsteps_s = [1, inf]', "steps_s has inf: from 0.001 s"),
        ('[queues."q.a"]\nretry = "backoff"\nmessage_ttl_s = inf', "message_ttl_s has inf: from 0.001 s"),
        ('[queues."q.a"]\nretry_ttl_s = 1e300', "retry_ttl_s has 1e+300: from 0.001 s"),
        ('[queues."q.a\\n"]', "has a control character in its name: leave it out"),
        ('[queues."q.\\u001b[31m"]', "has a control character in its name: leave it out"),
        ('[exchanges]\n"e\\t" = "topic"\n[queues."q.a"]', "has a control character in its name"),
        (BOUND + f'{{ events = ["{"k" * 256}"] }}', "has 256 bytes and the broker takes 255"),
        (BOUND + '{ events = "orders.*" }', 'write an exchange with its keys, such as events = ["orders.*"]'),
        (BOUND + "{ events = [3] }", 'write an exchange with its keys, such as events = ["orders.*"]'),
        (BOUND + '["events"]', 'write an exchange with its keys, such as events = ["orders.*"]'),
        ('[queues."q.a"]\nretry_ttl_s = true', "retry_ttl_s: Expected `float`, got `bool`: write 15"),
        ('[queues."q.a"]\nsteps_s = 5', "steps_s: Expected `array`, got `int`: write [1, 2, 4, 8]"),
        ('[queues."q.a"]\nsteps_s = [1, "2"]', "steps_s[1]: Expected `float`, got `str`: write [1, 2, 4, 8]"),
        (
            '[queues."q.a"]\ndelivery_limit = 1.5',
            "delivery_limit: Expected `int | null`, got `float`: write 20",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_to_write(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_design(text, "topology.toml")
    assert problem in str(raised.value)
    assert str(raised.value).startswith("topology.toml")
    assert str(raised.value).isprintable()


def test_an_unknown_key_cannot_move_the_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "topology.toml"
    file.write_text('[exchanges]\n"e\\u001b[2J" = 3\n[queues."q.a"]')
    assert run(["rabbitmq", "topology", "show", "--topology", str(file)]) == 2
    assert "\x1b" not in capsys.readouterr().err
