"""Settings of clients in the names of Java, for Spark's connector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millstream.config.secrets import Secret
from millstream.errors import ConfigError
from millstream.log.kafka.settings import for_java


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"bootstrap.servers": "a:1", "client.id": "me"}, {"bootstrap.servers": "a:1", "client.id": "me"}),
        ({"security.protocol": "sasl_ssl"}, {"security.protocol": "SASL_SSL"}),
        (
            {"sasl.mechanism": "PLAIN", "sasl.username": "anna", "sasl.password": Secret('a"b\\c;d')},
            {
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
                'username="anna" password="a\\"b\\\\c;d";',
            },
        ),
        (
            {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p"},
            {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
                'username="u" password="p";',
            },
        ),
        (
            {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": Secret("p")},
            {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "p", "ssl.keystore.type": "PKCS12"},
        ),
        ({"ssl.ca.pem": "text"}, {"ssl.truststore.certificates": "text", "ssl.truststore.type": "PEM"}),
        ({"ssl.endpoint.identification.algorithm": "none"}, {"ssl.endpoint.identification.algorithm": ""}),
        ({"ssl.endpoint.identification.algorithm": "https"}, {"ssl.endpoint.identification.algorithm": "https"}),
    ],
)
def test_names_and_values(given: dict[str, Any], expected: dict[str, str]) -> None:
    assert for_java(given, {}) == expected


def test_certificates_are_read_from_files(tmp_path: Path) -> None:
    paths = {}
    for name in ("ca", "certificate", "key"):
        path = tmp_path / name
        path.write_text(f"the {name}")
        paths[f"ssl.{name}.location"] = str(path)
    assert for_java(paths, {}) == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "the ca",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "the certificate",
        "ssl.keystore.key": "the key",
    }


@pytest.mark.parametrize(
    ("given", "consumer", "told"),
    [
        ({}, {"fetch.message.max.bytes": 1}, "consumer.fetch.message.max.bytes is not a setting of Spark's connector"),
        ({"enable.ssl.certificate.verification": False}, {}, "enable.ssl.certificate.verification has no counterpart"),
        ({"sasl.mechanism": "GSSAPI"}, {}, "sasl.mechanism GSSAPI"),
        ({"ssl.ca.location": "/no/such/file"}, {}, "/no/such/file cannot be read: No such file"),
        ({"ssl.key.pem": "-----BEGIN RSA PRIVATE KEY-----"}, {}, "no private key in PKCS#1"),
    ],
)
def test_settings_without_a_counterpart_in_java_are_refused(
    given: dict[str, Any], consumer: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        for_java(given, consumer)
    assert told in caught.value.message
    assert caught.value.hint
