"""What is shown of settings: every value with its origin, and no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive.config import mask_url
from redrive.config.keys import NAMES, VARIABLES
from redrive.core.errors import ConfigurationError
from tests.config.configured import QUEUE, configured


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@host/0", "redis://:***@host/0"),
        ("redis://user:sec@ret@host/0", "redis://user:***@host/0"),
        ("postgresql://user@host/db?password=secret&x=1", "postgresql://user@host/db?password=***&x=1"),
        ("sqs://host?aws_secret_access_key=secret", "sqs://host?aws_secret_access_key=***"),
        ("sqlite:///redrive.db", "sqlite:///redrive.db"),
        ("redis://host:6379/0", "redis://host:6379/0"),
    ],
)
def test_a_masked_url_shows_no_secret(url: str, shown: str) -> None:
    assert mask_url(url) == shown


def test_neither_values_nor_errors_show_a_password(tmp_path: Path) -> None:
    settings = configured(tmp_path, 'store = "redis://:secret@host/0"')
    assert "secret" not in str(settings.values())
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, 'profile = "redis://:secret@host/0"')
    assert "secret" not in str(caught.value)


def test_every_value_has_an_origin_and_every_key_a_variable(tmp_path: Path) -> None:
    settings = configured(tmp_path, QUEUE)
    assert settings.values().keys() == settings.origins.keys()
    assert len(VARIABLES) == sum(map(len, NAMES.values()))


CHANNELS = """
[channels.ops]
url = "slack://canary-token/b/c"
[channels.hook]
url = "$HOOK"
secret = "canary-secret"
[alerts.dlq_high]
above = 7
[alerts.letters_leaving]
off = true
[tenants.acme]
contacts = ["ops"]
"""


def test_alerts_and_channels_are_read_and_their_secrets_never_shown(tmp_path: Path) -> None:
    settings = configured(tmp_path, CHANNELS, {"HOOK": "https://hooks.example/canary-path"})
    assert settings.alerts.channels["hook"].url == "https://hooks.example/canary-path"
    chosen = {rule.name: rule for rule in settings.alerts.rules}
    assert (chosen["dlq_high"].above, chosen["letters_leaving"].off) == (7, True)
    assert settings.alerts.contacts == {"acme": ("ops",)}
    shown = settings.values()
    assert shown["channels.hook.url"] == "https://***"
    assert shown["channels.hook.secret"] == "***"
    assert shown["tenants.acme.contacts"] == ["ops"]
    assert set(shown) == set(settings.origins)
    assert "canary" not in str(shown)
    assert "canary" not in repr(settings)
    assert all("canary" not in str(one.__rich_repr__()) for one in settings.alerts.channels.values())


def test_an_error_about_a_channel_does_not_show_its_address(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, "[channels.ops]\nurl = ['canary']")
    assert "canary" not in str(caught.value)
