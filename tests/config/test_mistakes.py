"""What is refused or ignored: each refusal names the key and its origin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.core.errors import ConfigurationError
from redrive.core.retry import RetryPolicy
from redrive.wiring import load, make_store
from tests.config.configured import configured

IN_FILE = [
    ("stor = 'x'", ["stor ", "did you mean store?"]),
    ("[wroker]\nlease_s = 1", ["wroker", "did you mean worker?"]),
    ("[worker]\nlease = 1", ["worker.lease", "did you mean lease_s?"]),
    ("[queues.a]\nratee = '1/s'", ["queues.a.ratee", "did you mean rate?"]),
    ("[alerts.dlq_hgih]\nabove = 3", ["[alerts.dlq_hgih]", "did you mean dlq_high?"]),
    ("[alerts.own]\nmetric = 'dlq_shar'", ["alerts.own.metric", "did you mean dlq_share?"]),
    ("[alerts.dlq_high]\nabvoe = 3", ["alerts.dlq_high.abvoe", "did you mean above?"]),
    ("[alerts.dlq_high]\nseverity = 'warnign'", ["did you mean warning?"]),
    ("[alerts.dlq_high]\nwindow_s = -1", ["[alerts.dlq_high]", "0 or more"]),
    ("[alerts.dlq_high]\nchannels = 'ops'", ["alerts.dlq_high.channels", "a list of names"]),
    ("[alerts.dlq_high]\nchannels = ['opps']\n[channels.ops]\nurl = 'slack://a/b/c'", ["did you mean ops?"]),
    ("[alerts.'DLQ high']\noff = true", ["is not a name"]),
    ("[channels.ops]", ["[channels.ops] from redrive.toml is empty"]),
    ("[alerts.typo]\n[worker]\nbatch = 5", ["[alerts.typo]", "write its keys below it"]),
    ("[channels.ops]\nletters = true", ["[channels.ops]", "has no url"]),
    ("[channels.ops]\nurl = '$NO_SUCH_THING'", ["$NO_SUCH_THING", "is not set"]),
    ("[channels.ops]\nulr = 'x'", ["channels.ops.ulr", "did you mean url?"]),
    ("[tenants.acme]\ncontacts = ['acme-desk']", ["tenants.acme.contacts", "[channels.acme-desk]"]),
    ("[tenants.acme]\nfrom = 'acme.example'", ["tenants.acme.from", '["acme.example"]']),
    ("[tenants.acme]\nfrom = []", ["tenants.acme.from", "a list of domains"]),
    ("[tenants.acme]\nfrom = ['a b']", ["tenants.acme.from from redrive.toml", "is not a domain"]),
    ("[tenants.acme]\nform = ['a.b']", ["tenants.acme.form", "did you mean from?"]),
    ("[tenants.'a b']\nfrom = ['a.b']", ["'a b'", "is not a name"]),
    ("[tenants.a.b]\nfrom = ['a.b']", ["tenants.a.b", '[tenants."a.b"]']),
    ("[queues.a.b]\nrate = '1/s'", ["queues.a.b", '[queues."a.b"]']),
    ("worker = 3", ["worker", "[worker]"]),
    ("[queues]\na = 3", ["queues.a", "[queues.a]"]),
    ("store = 3", ["store", "a text"]),
    ("profile = 'prod'", ["profile", "'prod'", "production, development, mta"]),
    ("[worker]\nlease_s = '30'", ["worker.lease_s", "a number"]),
    ("[worker]\nbatch = 1.5", ["worker.batch", "a whole number"]),
    ("[worker]\nbatch = true", ["worker.batch", "a whole number"]),
    ("[worker]\nlease_s = nan", ["worker.lease_s", "finite"]),
    ("[worker]\nlease_s = inf", ["worker.lease_s", "finite"]),
    ("[retry]\nttl_s = 1e300", ["retry.ttl_s", "100 years"]),
    ("[worker]\nlease_s = 0", ["worker.lease_s", "more than 0"]),
    ("[finished]\nkeep = -1", ["finished.keep", "0 or more"]),
    ("[retention]\nkeep = 0", ["retention.keep", "more than 0"]),
    ("[submit]\nbody_bytes = 0", ["submit.body_bytes", "more than 0"]),
    ("[logs]\nlevel = 'loud'", ["logs.level", "debug or info"]),
    ("[retry]\nattempts = 0", ["retry.attempts", "at least 1"]),
    ("[retry]\nattempts = 'many'", ["retry.attempts", "a whole number or none"]),
    ("[retry]\nbackoff = 'cubic'", ["retry.backoff", "exponential or linear or fixed"]),
    ("[retry]\njitter = 1", ["retry.jitter"]),
    ("[retry]\nbase_s = 100", ["retry.base_s", "cap_s from profile production"]),
    ("[retry]\nbase_s = 9\ncap_s = 8", ["retry.base_s", "retry.cap_s"]),
    ("[queues.a]\nattempts = 0", ["queues.a.attempts"]),
    ("[queues.a]\nbase_s = 100", ["queues.a.base_s", "cap_s from profile production"]),
    ("[retry]\nbase_s = 9\n[queues.a]\ncap_s = 8", ["queues.a.cap_s", "base_s from redrive.toml"]),
    ("[queues.a]\nrate = 'fast'", ["queues.a.rate", "100/min"]),
    ("[queues.a]\nrate = '0/s'", ["queues.a.rate"]),
    ("[queues.a]\nconcurrency = 0", ["queues.a.concurrency"]),
    ("[queues.'a b']\nrate = '1/s'", ["'a b'", "is not a name"]),
    ("[worker]\nbatch = 1\nbatch = 2\n", ["line 3"]),
    ("store = \n", ["is not TOML", "line 1"]),
]


@pytest.mark.parametrize(("toml", "said"), IN_FILE)
def test_a_mistake_in_the_file_names_key_and_file(tmp_path: Path, toml: str, said: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, toml)
    for part in [*said, "redrive.toml"]:
        assert part in str(caught.value)


IN_ENVIRONMENT = [
    ("REDRIVE_PROFILE", "prod", ["profile", "mta"]),
    ("REDRIVE_RETRY_ATTEMPTS", "0", ["retry.attempts", "at least 1"]),
    ("REDRIVE_RETRY_ATTEMPTS", "2.5", ["retry.attempts", "a whole number or none"]),
    ("REDRIVE_WORKER_LEASE_S", "nan", ["worker.lease_s", "finite"]),
    ("REDRIVE_WORKER_LEASE_S", "ten", ["worker.lease_s", "a number"]),
    ("REDRIVE_RETRY_CAP_S", "0.5", ["retry.cap_s", "base_s from profile production"]),
    ("REDRIVE_CONFIG", "gone.toml", ["gone.toml", "does not exist"]),
]


@pytest.mark.parametrize(("variable", "text", "said"), IN_ENVIRONMENT)
def test_a_mistake_in_the_environment_names_the_variable(
    tmp_path: Path, variable: str, text: str, said: list[str]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, environ={variable: text})
    for part in [*said, variable]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"worker.lease_s": -1}, ["worker.lease_s from flag"]),
        ({"wroker.lease_s": 1}, ["wroker.lease_s from flag", "did you mean worker?"]),
        ({"queues.a b.rate": "1/s"}, ["from flag", "'a b'"]),
        ({"config": "gone.toml"}, ["flag config", "gone.toml"]),
    ],
)
def test_a_mistake_in_a_flag_names_the_flag(
    tmp_path: Path, flags: Mapping[str, object], said: list[str]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, flags=flags)
    for part in said:
        assert part in str(caught.value)


def test_a_pair_from_two_places_names_both(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, "[retry]\nbase_s = 10", {"REDRIVE_RETRY_CAP_S": "5"})
    assert "retry.base_s from redrive.toml" in str(caught.value)
    assert "retry.cap_s from REDRIVE_RETRY_CAP_S" in str(caught.value)


def test_an_overridden_mistake_is_still_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"profile from redrive\.toml"):
        configured(tmp_path, "profile = 'prod'", {"REDRIVE_PROFILE": "mta"})


def test_a_file_that_is_not_text_or_not_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name, why in (("bytes.toml", "UTF-8"), (".", "cannot be read")):
        with pytest.raises(ConfigurationError, match=why) as caught:
            load(environ={"REDRIVE_CONFIG": name}, folder=tmp_path)
        assert str(caught.value).startswith(name)


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("REDRIVE_STOER", "did you mean REDRIVE_STORE?"),
        ("REDRIVE_WORKER_LEASE", "did you mean REDRIVE_WORKER_LEASE_S?"),
        ("REDRIVE_QUEUES_A_RATE", "is not a setting"),
        ("REDRIVE_HTTP_PORT", "is not a setting"),
    ],
)
def test_an_unknown_variable_is_ignored_with_one_warning_and_the_nearest_name(
    tmp_path: Path, variable: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        configured(tmp_path, environ={variable: "8025"})
    (line,) = [record.getMessage() for record in caplog.records]
    assert variable in line
    assert said in line


def test_what_kubernetes_sets_for_a_service_named_redrive_is_none_of_our_business(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = {
        "REDRIVE_SERVICE_HOST": "127.0.0.1",
        "REDRIVE_SERVICE_PORT": "8025",
        "REDRIVE_SERVICE_PORT_HTTP": "8025",
        "REDRIVE_PORT": "tcp://127.0.0.1:8025",
        "REDRIVE_PORT_8025_TCP": "tcp://127.0.0.1:8025",
        "REDRIVE_PORT_8025_TCP_PROTO": "tcp",
        "REDRIVE_PORT_8025_TCP_PORT": "8025",
        "REDRIVE_PORT_8025_TCP_ADDR": "127.0.0.1",
        "REDRIVE_WEB_SERVICE_HOST": "127.0.0.1",
        "REDRIVE_WEB_PORT": "tcp://127.0.0.1:8025",
    }
    assert configured(tmp_path, environ=service) == configured(tmp_path)
    assert caplog.records == []


def test_a_section_that_contradicts_the_handler_names_both(tmp_path: Path) -> None:
    settings = configured(tmp_path, "[queues.orders]\ncap_s = 60")
    with pytest.raises(ConfigurationError) as caught:
        settings.policy("orders", RetryPolicy(base_s=100, cap_s=100))
    assert "queues.orders.cap_s from redrive.toml" in str(caught.value)
    assert "base_s chosen by the handler" in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"store": "redis://127.0.0.1:1/0?foo=1"}, "no option 'foo'"),
        ({"store": "redis://[::1"}, "write redis://"),
    ],
)
def test_an_address_of_a_store_that_cannot_be_right_is_refused_when_it_is_made(
    flags: Mapping[str, object], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make_store(load(flags, environ={}))


async def test_an_office_refuses_a_relay_whose_address_cannot_be_read(tmp_path: Path) -> None:
    app = Redrive(settings=load({"data": str(tmp_path), "mail": "smtp://[::1"}, environ={}))
    async with app:
        with pytest.raises(ConfigurationError, match="host or port cannot be read"):
            _ = app.office
