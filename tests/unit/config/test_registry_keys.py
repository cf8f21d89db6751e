from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millstream.config import Config
from millstream.config.profiles import from_environment
from millstream.config.secrets import reveal
from millstream.errors import ConfigError

URL = "schema.registry.url"
USER = "schema.registry.basic.auth.user.info"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "PROFILE", "BOOTSTRAP_SERVERS", "SCHEMA_REGISTRY_URL"):
        monkeypatch.delenv(f"MILLSTREAM_{name}", raising=False)


@pytest.mark.parametrize(
    ("value", "checked"),
    [
        ("http://localhost:8081", "http://localhost:8081"),
        ("https://a/path/, http://b:1", "https://a/path,http://b:1"),
        (["http://a", "http://b"], "http://a,http://b"),
        (None, None),
    ],
)
def test_addresses_are_a_list_or_text(value: Any, checked: Any) -> None:
    assert Config({URL: value})[URL] == checked


@pytest.mark.parametrize("value", ["localhost:8081", "ftp://a", "", "http://", "http://a:port", "http://a?b=c", 5])
def test_what_is_no_address_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"schema\.registry\.url: .* is not an address"):
        Config({URL: value})


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="contains a user or a password") as raised:
        Config({URL: "http://a,http://anna:hunter2@b"})
    assert "hunter2" not in str(raised.value)
    assert "schema.registry.basic.auth.user.info" in str(raised.value)


@pytest.mark.parametrize(
    "key", [USER, *(f"schema.registry.{key}" for key in ("bearer.auth.token", "bearer.auth.client.secret"))]
)  # fmt: skip
def test_secrets_are_not_shown(key: str) -> None:
    config = Config({key: "anna:hunter2"})
    assert "hunter2" not in f"{config.explicit} {config[key]!r}"
    assert reveal(config[key]) == "anna:hunter2"


def test_user_info_is_a_user_and_a_password() -> None:
    with pytest.raises(ConfigError, match="is not of the form user:password") as raised:
        Config({USER: "hunter2"})
    assert "hunter2" not in str(raised.value)


def test_the_source_of_a_token_is_no_secret() -> None:
    key = "schema.registry.bearer.auth.credentials.source"
    assert Config({key: "STATIC_TOKEN"})[key] == "STATIC_TOKEN"
    with pytest.raises(ConfigError, match="'STATIC' is not allowed"):
        Config({key: "STATIC"})


def test_a_misspelt_key_has_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'schema\.registry\.url'"):
        Config({"schema.registry.ulr": "http://a"})


def test_the_environment_names_a_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MILLSTREAM_SCHEMA_REGISTRY_URL", "http://a:8081")
    assert from_environment() == {URL: "http://a:8081"}
    (tmp_path / "m.toml").write_text(
        f'[profiles.test]\n"bootstrap.servers" = "b:9092"\n"{URL}" = "http://b:8081"\n"{USER}" = "anna:${{env:PW}}"\n'
    )
    monkeypatch.setenv("MILLSTREAM_CONFIG", str(tmp_path / "m.toml"))
    monkeypatch.setenv("MILLSTREAM_PROFILE", "test")
    monkeypatch.setenv("PW", "hunter2")
    settings = from_environment()
    assert settings[URL] == "http://a:8081"
    assert reveal(settings[USER]) == "anna:hunter2"
    monkeypatch.delenv("MILLSTREAM_SCHEMA_REGISTRY_URL")
    assert from_environment()[URL] == "http://b:8081"
