"""Profiles in millstream.toml, and errors for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.config.profiles import from_environment, profile
from millstream.config.secrets import Secret
from millstream.errors import ConfigError
from millstream.log.opening import log_location

TEXT = """
[profiles.production]
bootstrap_servers = ["kafka-1:9093", "kafka-2:9093"]
security.protocol = "SASL_SSL"
"sasl.username" = "anna"
sasl.password = "${env:KAFKA_PASSWORD}"
ssl.ca.location = "${file:ca}"

[profiles.test]
"bootstrap.servers" = "127.0.0.1:9092"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MILLSTREAM_PROFILE", "MILLSTREAM_CONFIG", "MILLSTREAM_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca").write_text("ca.pem\n", encoding="utf-8")
    (tmp_path / "millstream.toml").write_text(TEXT, encoding="utf-8")
    return tmp_path


def test_keys_of_a_profile_may_be_quoted_or_nested() -> None:
    assert profile("production") == {
        "bootstrap.servers": "kafka-1:9093,kafka-2:9093",
        "sasl.password": Secret("hunter2"),
        "sasl.username": "anna",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "ca.pem",
    }
    assert "hunter2" not in str(profile("production"))


def test_the_environment_selects_a_profile_and_servers(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    assert from_environment() == {}
    assert log_location({}, folder).cluster is None
    monkeypatch.setenv("MILLSTREAM_PROFILE", "production")
    cluster = log_location({}, folder).cluster
    assert cluster is not None
    assert cluster.clients["sasl.username"] == "anna"
    monkeypatch.setenv("MILLSTREAM_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert from_environment()["bootstrap.servers"] == "127.0.0.1:1"
    monkeypatch.delenv("MILLSTREAM_PROFILE")
    assert from_environment() == {"bootstrap.servers": "127.0.0.1:1"}
    own = log_location({"bootstrap.servers": "127.0.0.1:2"}, folder).cluster
    assert own is not None
    assert own.servers == "127.0.0.1:2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[profiles.test", "millstream.toml is not TOML: "),
        (b"\xff", "millstream.toml is not TOML: "),
        (b"profiles = 1", "millstream.toml has no profile 'test'"),
        (b"[profiles]\ntest = 1", "millstream.toml has no profile 'test'"),
        (b"[profiles.test]\nclient.id = 'x'", "profile 'test': bootstrap.servers is missing"),
        (
            b"[profiles.test]\nbootstrap.servers = 'nowhere'",
            "profile 'test': bootstrap.servers: 'nowhere' is not a list",
        ),
        (b"[profiles.test]\nboostrap.servers = 'a:1'", "profile 'test': unknown configuration key 'boostrap.servers'"),
        (b"[profiles.test]\nsasl.password = '${env:NONE}'", "sasl.password: there is no environment variable NONE"),
        (b"[profiles.test]\nsasl.password = '${file:none}'", "sasl.password: none cannot be read: No such file"),
    ],
)
def test_an_error_in_a_profile_is_reported(folder: Path, text: bytes, message: str) -> None:
    (folder / "millstream.toml").write_bytes(text)
    with pytest.raises(ConfigError, match=f".*{message.replace('[', '.')}"):
        profile("test")


def test_a_missing_file_is_an_error(folder: Path) -> None:
    (folder / "millstream.toml").unlink()
    with pytest.raises(ConfigError, match="cannot be read: No such file") as error:
        profile("test")
    assert error.value.hint == "profiles are read from ./millstream.toml, or from the file that MILLSTREAM_CONFIG names"
