"""Secrets of the configuration are in no answer, no report, no error and no log."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import running
from tests.serve import shop
from tests.serve.conftest import Serving
from tests.serve.servers import Server

from millstream.config import KEYS
from millstream.config.secrets import Secret, protected
from millstream.log import open_log
from millstream.serve.access.roles import Role
from millstream.serve.web import create_routes

SENTINEL = "sentinel:7f3a9c-of-32-characters"

OTHERS = (
    "sasl.password", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config", "ssl.key.password", "ssl.key.pem",
    "ssl.keystore.password", "ssl.truststore.password", "producer.sasl.password", "consumer.ssl.key.password",
    "mask.key.people", "spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.azure.account.key.store",
    "spark.redis.auth.token", "spark.kubernetes.credential",
)  # fmt: skip


def secret_keys() -> list[str]:
    """All keys whose values are secret: those that Millstream knows, and those of its clients."""
    own = [key for key in KEYS if isinstance(protected(key, "x"), Secret)]
    assert own
    return [*own, *OTHERS]


@pytest.mark.slow  # it starts an application and a server
def test_secrets_are_in_no_answer_and_no_file(data: Path, serving: Serving) -> None:
    keys = secret_keys()
    config = dict.fromkeys(keys, SENTINEL)
    config["spark.some.url"] = f"http://anna:{SENTINEL}@127.0.0.1:9"
    program = """
import json, sys
from pathlib import Path
from tests.serve import shop
from millstream import App
app = shop.build(Path(sys.argv[1]), config=json.load(sys.stdin))
app.stream("orders-2", key=str, value=str).map_values(int, value=int).to("counts-2", key=str)
app.run(mode="local")
"""
    shop.create_topics(data)
    with open_log(data) as log:
        log.create_topic("orders-2")
        log.create_topic("counts-2")
        log.produce("orders-2", [shop.order("north")])
    ended = subprocess.run(
        [sys.executable, "-c", program, str(data)],
        input=json.dumps(config),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "invalid literal" in ended.stderr, ended.stderr
    assert SENTINEL not in ended.stderr
    (configuration,) = data.rglob("configuration.json")
    shown = json.loads(configuration.read_text())
    assert {key: shown[key] for key in keys} == dict.fromkeys(keys, "[hidden]")
    assert shown["spark.some.url"] == "http://[hidden]@127.0.0.1:9"

    with serving(data, config={"sasl.password": SENTINEL, "schema.registry.basic.auth.user.info": SENTINEL}) as server:
        answers = [server.admin.get(path).body for path in _paths()]
        assert len(answers) > 10
        assert not [answer for answer in answers if SENTINEL.encode() in answer]
        assert SENTINEL not in server.text()
        assert not [process.command for process in running().values() if SENTINEL in process.command]
    for file in data.rglob("run/*"):
        assert not file.is_file() or SENTINEL not in file.read_text(), file


def test_a_token_is_in_no_answer_and_no_file(shop_server: Server) -> None:
    token = shop_server.token(Role.ADMIN)
    secret = token[-24:]  # the random part may have underscores, too
    for path in _paths():
        for answer in (shop_server.admin.get(path), shop_server.anonymous().get(f"{path}?token={token}")):
            assert secret not in f"{answer.headers} {answer.body!r}"
    assert secret not in shop_server.text()
    for file in shop_server.data.rglob("access/*"):
        assert secret not in file.read_text()


@pytest.mark.parametrize("text", ["kafka://anna:pw@host:1", "https://token@host/x", "http://a:b%40c@[::1]:80/"])
def test_the_password_of_an_address_is_hidden(text: str) -> None:
    from millstream.runtime.observe.report import _plain

    (shown,) = _plain({"some.url": text}).values()
    assert "[hidden]@" in shown
    assert not [word for word in ("anna", "pw", "token", "b%40c") if word in shown]


def _paths() -> list[str]:
    """The paths of all GET routes without a stream, for the application `shop` and the topic `orders`."""
    names = {
        "application": "shop",
        "topic": "orders",
        "group": "shop",
        "partition": "0",
        "offset": "0",
        "store": "prices",
    }
    paths = []
    for path, methods in create_routes().openapi()["paths"].items():
        if "get" in methods and "event" not in path:
            parameters = methods["get"].get("parameters", ())
            values = {each["name"]: names.get(each["name"], "0") for each in parameters if each["in"] == "path"}
            paths.append(path.format(**values))
    return [*paths, "/openapi.json"]
