"""Secrets are resolved from variables and files, and never shown."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from millstream import App
from millstream.config import Config
from millstream.config.secrets import Secret, reveal
from millstream.errors import ConfigError
from millstream.log.opening import log_location


@pytest.mark.parametrize(
    "key",
    ["sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret", "producer.sasl.password"],
)
def test_a_secret_is_not_shown(key: str) -> None:
    config = Config({"bootstrap.servers": "kafka:9092", key: "hunter2"})
    assert "hunter2" not in f"{dict(config)!r} {config[key]} {log_location(config)!r}"
    assert reveal(config[key]) == "hunter2"
    assert pickle.loads(pickle.dumps(config[key])) == Secret("hunter2")


def test_other_values_are_shown() -> None:
    assert Config({"sasl.username": "anna"})["sasl.username"] == "anna"


def test_references_to_variables_and_files_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_HOST", "kafka")
    (tmp_path / "password").write_text("hunter2\n")
    given = {"bootstrap.servers": "${env:KAFKA_HOST}:9093", "sasl.password": f"${{file:{tmp_path / 'password'}}}"}
    config = Config(given)
    assert config["bootstrap.servers"] == "kafka:9093"
    assert reveal(config["sasl.password"]) == "hunter2"
    assert Config(config) == config
    assert Config(config.explicit) == config


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("${env:NOBODY_SET_THIS}", "no environment variable NOBODY_SET_THIS"),
        ("${file:/no/such/file}", "cannot be read"),
    ],
)
def test_an_unresolvable_reference_is_an_error(value: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"sasl.password: .*{told}"):
        App("shop", config={"sasl.password": value})


@pytest.mark.parametrize("servers", ["kafka", "kafka:", ":9092", "a:1,,b:2", 9092, "a:one"])
def test_invalid_servers_are_refused(servers: object) -> None:
    with pytest.raises(ConfigError, match="is not a list of servers"):
        Config({"bootstrap.servers": servers})


def test_servers_may_be_a_list() -> None:
    assert Config({"bootstrap.servers": ["a:1", "b:2"]})["bootstrap.servers"] == "a:1,b:2"


@pytest.mark.parametrize("reset", ["by_duration:soon", "sometimes", "by_duration:"])
def test_an_invalid_offset_reset_is_refused(reset: str) -> None:
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        Config({"auto.offset.reset": reset})


def test_an_offset_reset_may_be_a_duration() -> None:
    assert Config({"auto.offset.reset": "by_duration:PT1H30M"})["auto.offset.reset"] == 5_400_000
    assert Config({"auto.offset.reset": "by_duration:2d"})["auto.offset.reset"] == 172_800_000
