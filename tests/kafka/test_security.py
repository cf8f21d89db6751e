"""TLS, SASL and access control of a real broker, and the errors when they fail."""

from __future__ import annotations

import dataclasses
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.kafka.conftest import running
from tests.kafka.opening import open_kafka_log
from tests.unit.log.helpers import record, rows

from millstream.core.diagnostics import Check
from millstream.dev.broker import Broker
from millstream.errors import AuthenticationError, AuthorizationError, BrokerError, ConfigError, MillstreamError
from millstream.log import Append, Publication, Scope
from millstream.log.blocks import encode
from millstream.log.kafka import KafkaLog, health
from millstream.log.opening import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

NOW = int(time.time() * 1000)
PASSWORDS = {"admin": "admin-password", "clerk": "clerk-password"}
SCRAM_PASSWORD = "scram-password"
WRONG = "wrong-password"
QUICKLY = 15.0
"""Seconds; half of the timeout of a request."""

Settings = dict[str, Any]


class Secure:
    """A broker with authentication and access control."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})

    def settings(self, listener: str, **more: str) -> Settings:
        """Returns settings for a listener. In names of `more`, an underscore stands for a dot."""
        given = {"bootstrap.servers": f"127.0.0.1:{self.broker.port_of(listener)}"}
        return {**given, **{name.replace("_", "."): value for name, value in more.items()}}

    def tls(self, listener: str = "SSL", ca: str = "broker", **more: str) -> Settings:
        path = str(self.folder / f"{ca}.crt")
        return self.settings(listener, **{"security_protocol": "SSL", "ssl_ca_location": path, **more})

    def sasl(self, mechanism: str, password: str, user: str = "admin", listener: str = "SASL_PLAINTEXT") -> Settings:
        more = {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}
        if listener == "SASL_SSL":
            return self.tls(listener, security_protocol=listener, **more)
        return self.settings(listener, security_protocol=listener, **more)

    def mutual(self, name: str = "client") -> Settings:
        paths = (str(self.folder / f"{name}.{kind}") for kind in ("crt", "key"))
        return self.tls("MUTUAL", **dict(zip(("ssl_certificate_location", "ssl_key_location"), paths, strict=True)))

    def allow(self, *rights: tuple[ResourceType, str, AclOperation]) -> None:
        """Gives the clerk rights to names with a prefix, and waits until they are effective."""
        bindings = [
            AclBinding(kind, name, ResourcePatternType.PREFIXED, "User:clerk", "*", right, AclPermissionType.ALLOW)
            for kind, name, right in rights
        ]
        for future in self.admin.create_acls(bindings).values():
            future.result(30)
        self.wait_until(lambda rights: set(bindings) <= set(rights))

    def take_all_rights(self) -> None:
        for future in self.admin.delete_acls([ANY]).values():
            future.result(30)
        self.wait_until(lambda rights: not rights)

    def wait_until(self, true: Callable[[list[AclBinding]], bool]) -> None:
        deadline = time.monotonic() + 30
        while not true(self.admin.describe_acls(ANY).result(30)):
            assert time.monotonic() < deadline


EACH: Any = None
"""The type stubs do not allow None for any name, user and host."""
ANY = AclBindingFilter(
    *(ResourceType.ANY, EACH, ResourcePatternType.ANY, EACH, EACH, AclOperation.ANY, AclPermissionType.ANY)
)


def make_certificate(folder: Path, name: str, host: str = "IP:127.0.0.1") -> None:
    """Writes a key and a certificate that is its own CA."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    what = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    where = ["-keyout", str(key), "-out", str(certificate)]
    command = ["openssl", "req", "-x509", *what, "-addext", f"subjectAltName={host}", *where]
    subprocess.run(command, check=True, capture_output=True)
    (folder / f"{name}.pem").write_text(key.read_text() + certificate.read_text())


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("secure")
    for name in ("broker", "other", "client"):
        make_certificate(folder, name)
    make_certificate(folder, "elsewhere", "DNS:elsewhere.example")
    users = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    security = "org.apache.kafka.common.security"
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin;User:CN=client",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(folder / "client.crt"),
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        login = f"listener.name.{listener}.{{}}.sasl.jaas.config"
        properties[login.format("plain")] = f"{security}.plain.PlainLoginModule required {users};"
        properties[login.format("scram-sha-256")] = f"{security}.scram.ScramLoginModule required;"
    for listener in ("ssl", "sasl_ssl", "mutual", "elsewhere"):
        name = "elsewhere" if listener == "elsewhere" else "broker"
        properties[f"listener.name.{listener}.ssl.keystore.type"] = "PEM"
        properties[f"listener.name.{listener}.ssl.keystore.location"] = str(folder / f"{name}.pem")
    listeners = {"MUTUAL": "SSL", "ELSEWHERE": "SSL", **{name: name for name in ("SSL", "SASL_PLAINTEXT", "SASL_SSL")}}
    with running(Broker(folder / "broker", properties=properties, listeners=listeners)) as broker:
        made = Secure(broker, folder)
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion("admin", credential, SCRAM_PASSWORD.encode())
        for future in made.admin.alter_user_scram_credentials([change]).values():
            future.result(30)
        yield made


@pytest.fixture
def topics(secure: Secure, tmp_path: Path) -> Iterator[None]:
    """Topics, with a record in one of them, and no rights."""
    with open_kafka_log(secure.settings("PLAINTEXT"), tmp_path / "admin") as log:
        log.create_topic("in")
        log.create_topic("out")
        log.produce("in", [record("k", "v", NOW)])
        yield
        secure.take_all_rights()
        for topic in log.topics():
            log.delete_topic(topic.name)


def told(settings: Settings, directory: Path, use: Callable[[KafkaLog], object] = KafkaLog.topics) -> MillstreamError:
    """Returns the error, which must have one line, a hint and no secret, and be raised quickly."""
    started = time.monotonic()
    with pytest.raises(MillstreamError) as caught, open_kafka_log(settings, directory) as log:
        use(log)
    assert time.monotonic() - started < QUICKLY
    error = caught.value
    assert "\n" not in error.message
    assert error.hint is not None
    assert "\n" not in error.hint
    for secret in (*PASSWORDS.values(), SCRAM_PASSWORD, WRONG):
        assert secret not in str(error)
    return error


def publish(log: KafkaLog, application: str = "app") -> bool:
    appends = [Append("out", 0, encode([NOW], [b"k"], [b"w"]))]
    made = Publication(Scope(application), log.applications.acquire(Scope(application)), 1, appends, {("in", 0): 1})
    return log.applications.publish(dataclasses.replace(made, fingerprints={"out": (1, b"w")}, state={"plan": b"1"}))


GOOD: dict[str, Callable[[Secure], Settings]] = {
    "TLS": lambda secure: secure.tls(),
    "TLS with a client certificate": lambda secure: secure.mutual(),
    "PLAIN": lambda secure: secure.sasl("PLAIN", PASSWORDS["admin"]),
    "SCRAM": lambda secure: secure.sasl("SCRAM-SHA-256", SCRAM_PASSWORD),
    "PLAIN over TLS": lambda secure: secure.sasl("PLAIN", PASSWORDS["admin"], listener="SASL_SSL"),
    "SCRAM over TLS": lambda secure: secure.sasl("SCRAM-SHA-256", SCRAM_PASSWORD, listener="SASL_SSL"),
}


@pytest.mark.parametrize("how", GOOD)
def test_a_log_works_over_a_listener_that_is_secured(secure: Secure, topics: None, tmp_path: Path, how: str) -> None:
    with open_kafka_log(GOOD[how](secure), tmp_path) as log:
        log.create_topic("new", 2)
        log.produce("new", [record("k", "v", NOW)], partition=1)
        assert rows(log, "new", 1) == [(0, "k", "v")]
        assert publish(log)
        assert rows(log, "out") == [(0, "k", "w")]
        assert log.committed("app") == {("in", 0): 1}
        log.applications.delete("app")


REFUSED: list[tuple[str, Callable[[Secure], Settings], type[MillstreamError], str, str]] = [
    (
        "a wrong password",
        lambda secure: secure.sasl("PLAIN", WRONG),
        *(AuthenticationError, "rejects user 'admin': Authentication failed", "sasl.password"),
    ),
    (
        "a wrong password over TLS",
        lambda secure: secure.sasl("PLAIN", WRONG, listener="SASL_SSL"),
        *(AuthenticationError, "rejects user 'admin': Authentication failed", "sasl.password"),
    ),
    (
        "a wrong SCRAM password",
        lambda secure: secure.sasl("SCRAM-SHA-256", WRONG),
        *(AuthenticationError, "rejects user 'admin': ", "sasl.password"),
    ),
    (
        "an unknown user",
        lambda secure: secure.sasl("SCRAM-SHA-256", WRONG, "nobody"),
        *(AuthenticationError, "rejects user 'nobody': ", "sasl.username"),
    ),
    (
        "a mechanism that is not offered",
        lambda secure: secure.sasl("SCRAM-SHA-512", SCRAM_PASSWORD),
        *(AuthenticationError, "broker's supported mechanisms: PLAIN,SCRAM-SHA-256", "sasl.mechanism"),
    ),
    (
        "a wrong CA",
        lambda secure: secure.tls(ca="other"),
        *(AuthenticationError, "is not trusted", "ssl.ca.location"),
    ),
    (
        "no CA",
        lambda secure: secure.settings("SSL", security_protocol="SSL"),
        *(AuthenticationError, "is not trusted", "ssl.ca.location"),
    ),
    (
        "a certificate of another host",
        lambda secure: secure.tls("ELSEWHERE", "elsewhere"),
        *(AuthenticationError, "is not trusted", "issued for that host"),
    ),
    (
        "no client certificate",
        lambda secure: secure.tls("MUTUAL"),
        *(AuthenticationError, "TLS with the broker", "ssl.certificate.location"),
    ),
    (
        "an unknown client certificate",
        lambda secure: secure.mutual("other"),
        *(AuthenticationError, "TLS with the broker", "ssl.certificate.location"),
    ),
    (
        "no TLS where there must be",
        lambda secure: secure.settings("SSL"),
        *(BrokerError, "closes each connection: it may require TLS or SASL", "PLAINTEXT"),
    ),
    (
        "no SASL where there must be",
        lambda secure: secure.settings("SASL_PLAINTEXT"),
        *(BrokerError, "closes each connection: it may require TLS or SASL", "PLAINTEXT"),
    ),
    (
        "TLS where there is none",
        lambda secure: secure.tls("PLAINTEXT"),
        *(BrokerError, "closes each connection: it seems not to use TLS", "security.protocol"),
    ),
    (
        "SASL where there is none",
        lambda secure: {**secure.sasl("PLAIN", PASSWORDS["admin"]), **secure.settings("PLAINTEXT")},
        *(AuthenticationError, "does not use SASL", "security.protocol"),
    ),
]


@pytest.mark.parametrize(("what", "settings", "kind", "message", "hint"), REFUSED, ids=[case[0] for case in REFUSED])
def test_a_refused_connection_is_explained(
    secure: Secure,
    tmp_path: Path,
    what: str,
    settings: Callable[[Secure], Settings],
    kind: type[MillstreamError],
    message: str,
    hint: str,
) -> None:
    error = told(settings(secure), tmp_path)
    assert type(error) is kind
    assert message in error.message
    assert hint in str(error.hint)


def test_one_wrong_bootstrap_server_of_several_is_tolerated(secure: Secure, tmp_path: Path) -> None:
    right = secure.sasl("SCRAM-SHA-256", SCRAM_PASSWORD)
    wrong = [secure.settings(name)["bootstrap.servers"] for name in ("PLAINTEXT", "SSL")]
    servers = ",".join([*wrong, right["bootstrap.servers"], "127.0.0.1:1"])
    with open_kafka_log({**right, "bootstrap.servers": servers}, tmp_path) as log:
        assert log.topics() == []


TOPIC, GROUP, TRANSACTIONS = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
LOOK = [
    (TOPIC, name, right) for name in ("in", "out") for right in (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
]
PROGRESS = [(TOPIC, "app-", AclOperation.ALL)]


@pytest.fixture
def clerk(secure: Secure, topics: None) -> Settings:
    """Settings of a user without rights."""
    return secure.sasl("PLAIN", PASSWORDS["clerk"], "clerk")


def test_topics_without_the_right_to_describe(clerk: Settings, tmp_path: Path) -> None:
    with open_kafka_log(clerk, tmp_path / "data") as log:
        assert log.topics() == []
    uses: dict[str, Callable[[KafkaLog], object]] = {
        "topic 'in' cannot be described": lambda log: log.read("in", 0, 0, 1),
        "topic 'out' cannot be described": lambda log: log.produce("out", [record("k", "v", NOW)]),
        "topic 'new'": lambda log: log.create_topic("new"),
        "topic 'app-progress' cannot be described": lambda log: log.applications.published(Scope("app")),
    }
    for what, use in uses.items():
        error = told(clerk, tmp_path, use)
        assert isinstance(error, AuthorizationError)
        assert error.message.startswith(f"{what}: ")
        assert str(error.hint).startswith("user 'clerk' needs more rights: Describe and DescribeConfigs on the topic")


def test_topics_without_the_right_to_write_or_read(secure: Secure, clerk: Settings, tmp_path: Path) -> None:
    secure.allow(*LOOK, (TRANSACTIONS, "millstream-", AclOperation.WRITE))
    error = told(clerk, tmp_path, lambda log: log.produce("out", [record("k", "v", NOW)]))
    assert isinstance(error, AuthorizationError)
    assert " (out) was aborted: " in error.message
    assert "Topic authorization failed" in error.message
    error = told(clerk, tmp_path, lambda log: log.read("in", 0, 0, 1))
    assert isinstance(error, AuthorizationError)
    assert error.message.startswith("topic 'in' cannot be read: ")


def test_reading_requires_no_right_to_a_group(secure: Secure, clerk: Settings, tmp_path: Path) -> None:
    secure.allow(*LOOK, (TOPIC, "in", AclOperation.READ))
    for _ in range(5):
        with open_kafka_log(clerk, tmp_path) as log:
            assert rows(log, "in") == [(0, "k", "v")]


def test_a_right_granted_later_is_sufficient(secure: Secure, clerk: Settings, tmp_path: Path) -> None:
    secure.allow(*LOOK, (TRANSACTIONS, "millstream-", AclOperation.WRITE))
    with open_kafka_log(clerk, tmp_path) as log:
        with pytest.raises(AuthorizationError):
            log.produce("out", [record("k", "v", NOW)])
        secure.allow((TOPIC, "out", AclOperation.WRITE))
        assert log.produce("out", [record("k", "v", NOW)])


def test_an_application_without_the_rights_to_its_name(secure: Secure, clerk: Settings, tmp_path: Path) -> None:
    secure.allow(*LOOK, *PROGRESS, (TOPIC, "out", AclOperation.WRITE))
    error = told(clerk, tmp_path, publish)
    assert isinstance(error, AuthorizationError)
    assert error.message.startswith("transactions of 'app' cannot be initialized: ")
    assert "Write on the transactional id, which is the application's name" in str(error.hint)

    secure.allow((TRANSACTIONS, "app", AclOperation.WRITE))
    error = told(clerk, tmp_path, publish)
    assert isinstance(error, AuthorizationError)
    assert "Group authorization failed" in error.message
    assert "Read on the consumer group, whose name is the application's" in str(error.hint)

    for use in (lambda log: log.committed("app"), lambda log: log.commit_offsets("app", {("in", 0): 1})):
        assert "group 'app'" in told(clerk, tmp_path, use).message

    secure.allow((GROUP, "app", AclOperation.READ), (TOPIC, "in", AclOperation.READ))
    with open_kafka_log(clerk, tmp_path) as log:
        assert publish(log)
        assert log.committed("app") == {("in", 0): 1}


MISTAKES = [
    (
        "ssl.truststore.location",
        "store.jks",
        "ssl.truststore.location is a setting of Java's clients",
        "ssl.ca.location",
    ),
    ("sasl.jaas.config", f'… password="{WRONG}";', "sasl.jaas.config is a setting", "sasl.username and sasl.password"),
    ("ssl.keystore.type", "JKS", "ssl.keystore.type", "ssl.certificate.location and ssl.key.location"),
    ("ssl.keystore.location", "/dev/null", "ssl.keystore.location", "ssl.certificate.location and ssl.key.location"),
    ("sasl.pasword", WRONG, "Kafka's client has no setting 'sasl.pasword'", "did you mean 'sasl.password'?"),
    ("ssl.ca.location", "/nowhere.pem", "ssl.ca.location", "a PEM file that can be read"),
]


@pytest.mark.parametrize(("name", "value", "message", "hint"), MISTAKES, ids=[case[0] for case in MISTAKES])
def test_unknown_settings_are_refused(tmp_path: Path, name: str, value: str, message: str, hint: str) -> None:
    error = told({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", name: value}, tmp_path)
    assert isinstance(error, ConfigError)
    assert message in error.message
    assert hint in str(error.hint)


def test_a_missing_mechanism_is_reported(tmp_path: Path) -> None:
    given = {"security.protocol": "SASL_SSL", "sasl.username": "admin", "sasl.password": WRONG}
    error = told({"bootstrap.servers": "127.0.0.1:1", **given}, tmp_path)
    assert (error.message, error.hint) == ("sasl.mechanism is missing", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")


def findings(settings: Settings) -> dict[str, Check]:
    return {finding.name: finding for finding in health.examine(Cluster(settings))}


def test_doctor_checks_authentication(secure: Secure) -> None:
    known = findings(secure.sasl("PLAIN", PASSWORDS["admin"]))
    assert known["authentication"] == ("authentication", "ok", "SASL_PLAINTEXT, PLAIN as 'admin'", None)
    assert known["authorisation"].status == "ok"
    (refused,) = findings(secure.sasl("PLAIN", WRONG)).values()
    assert (refused.name, refused.status, refused.fix) == (
        *("authentication", "fail", "see sasl.username and sasl.password"),
    )
    assert WRONG not in refused.found


def test_doctor_checks_authorisation(secure: Secure) -> None:
    clerk = secure.sasl("PLAIN", PASSWORDS["clerk"], "clerk")
    with open_kafka_log(secure.sasl("PLAIN", PASSWORDS["admin"]), secure.folder / "doctor") as log:
        log.create_topic("ledger")
        secure.take_all_rights()
        nothing = findings(clerk)["authorisation"]
        assert nothing.found.startswith(
            "topics that are visible to the user: 0; topics can be created only under names for which"
        )
        secure.allow((ResourceType.TOPIC, "ledger", AclOperation.DESCRIBE))
        refused = findings(clerk)["authorisation"]
        assert (refused.status, refused.found) == ("fail", "the configuration of ledger cannot be read")
        assert refused.fix == "the user needs the right DescribeConfigs on its topics"
        secure.allow((ResourceType.TOPIC, "ledger", AclOperation.DESCRIBE_CONFIGS))
        assert findings(clerk)["authorisation"].found.startswith("topics that are visible to the user: 1; ")
        secure.take_all_rights()
        log.delete_topic("ledger")


def test_doctor_warns_of_a_password_without_encryption() -> None:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "anna"}
    far = health._authentication(Cluster({"bootstrap.servers": "kafka-1:9092", **settings}))
    assert far.status == "warn"
    assert health._authentication(Cluster({"bootstrap.servers": "localhost:9092", **settings})).status == "ok"
