"""Configuration: Kafka's keys, Python's spelling, and an error for everything else."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, TestDriver
from millstream.config import KEYS, OPTIMIZATIONS, Config, Settings
from millstream.errors import ConfigError, MillstreamError


def test_every_key_has_a_default_and_a_description() -> None:
    config = Config()
    assert set(config) == set(KEYS)
    assert len(config) == len(KEYS)
    assert all(key.doc.endswith(".") for key in KEYS.values())


def test_keys_may_have_dots_or_underscores() -> None:
    dotted = App("config", config={"processing.exception.handler": "continue"})
    underscored = App("config", processing_exception_handler="continue")
    mixed = App("config", config={"processing_exception_handler": "continue"})
    for app in (dotted, underscored, mixed):
        assert app.config["processing.exception.handler"] == "continue"


def test_a_keyword_overrides_the_mapping_in_either_spelling() -> None:
    for given in ("processing.exception.handler", "processing_exception_handler"):
        app = App("config", config={given: "fail"}, processing_exception_handler="continue")
        assert app.config["processing.exception.handler"] == "continue"


@pytest.mark.parametrize("key", ["spark.speculation", "spark_speculation"])
@pytest.mark.parametrize("value", [True, "true", "TRUE"])
def test_speculation_is_refused(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"the configuration enables spark\.speculation") as caught:
        App("config", config={key: value})
    assert caught.value.hint is not None
    assert "set spark.speculation to false" in caught.value.hint
    assert App("config", config={key: "false"}).config["spark.speculation"] == "false"


@pytest.mark.parametrize("key", ["processing.exeption.handler", "processing_exeption_handler"])
def test_an_unknown_key_is_refused_with_a_suggestion(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{key}'\n  hint: did you mean 'processing.exception.handler'"):
        App("config", config={key: "fail"})


def test_an_unknown_key_without_a_similar_one_is_refused_with_a_list_of_all() -> None:
    with pytest.raises(ConfigError, match=r"'zzz'\n  hint: the keys are: default.key.serde, "):
        App("config", zzz=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("key", [5, None, ("a",)])
def test_a_key_that_is_not_text_is_refused(key: Any) -> None:
    with pytest.raises(ConfigError, match="unknown configuration key"):
        App("config", config={key: 1})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topology.optimization", "everything"),
        ("topology.optimization", "merge.repartition.topics,oops"),
        ("topology.optimization", None),
        ("topology.optimization", 5),
        ("topology.optimization", [[]]),
        ("ensure.explicit.internal.resource.naming", "yes"),
        ("ensure.explicit.internal.resource.naming", None),
        ("ensure.explicit.internal.resource.naming", []),
        ("deserialization.exception.handler", "skip"),
        ("deserialization.exception.handler", ["fail"]),
        ("errors.dead.letter.queue.topic.name", "a/b"),
        ("default.key.serde", "strnig"),
        ("default.value.serde", 5),
        ("default.value.serde", lambda v: v),
    ],
)
def test_an_invalid_value_is_refused_with_its_key(key: str, value: Any) -> None:
    with pytest.raises(MillstreamError, match=key.replace(".", r"\.")):
        App("config", config={key: value})


@pytest.mark.parametrize(
    ("value", "rules"),
    [
        ("none", ()),
        ("all", OPTIMIZATIONS),
        ("merge.repartition.topics", ("merge.repartition.topics",)),
        (
            "single.store.self.join, merge.repartition.topics",
            ("single.store.self.join", "merge.repartition.topics"),
        ),
        (["single.store.self.join"], ("single.store.self.join",)),
    ],
)
def test_optimizations_are_none_all_or_named(value: Any, rules: tuple[str, ...]) -> None:
    assert App("config", topology_optimization=value).config["topology.optimization"] == rules


@pytest.mark.parametrize(("value", "flag"), [(True, True), (False, False), ("true", True), ("false", False)])
def test_flags_may_be_text(value: Any, flag: bool) -> None:
    app = App("config", ensure_explicit_internal_resource_naming=value)
    assert app.config["ensure.explicit.internal.resource.naming"] is flag


def test_default_serdes_apply_to_topics_without_their_own() -> None:
    app = App("config", default_key_serde=int, default_value_serde="string")
    app.stream("in").to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe(5, "text")
        assert driver.output("out", key=bytes, value=bytes).read_pairs() == [((5).to_bytes(8, "big"), b"text")]


def test_without_configuration_keys_are_text_and_values_json() -> None:
    app = App("config")
    app.stream("in").to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", {"a": [1, None]})
        assert driver.output("out", key=bytes, value=bytes).read_pairs() == [(b"k", b'{"a":[1,null]}')]


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        App("config").config["topology.optimization"] = "all"  # type: ignore[index]


@pytest.mark.parametrize("name", ["", "..", "a b", "a/b", "x" * 250, None, 5])
def test_the_application_id_is_a_legal_name(name: Any) -> None:
    with pytest.raises(MillstreamError, match="application name"):
        App(name)


def test_names_of_internal_topics_begin_with_the_application_id() -> None:
    app = App("my-app")
    app.stream("in", value=str).repartition(name="again").to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", "v")
        assert driver.produced_topics == {"out", "my-app-again-repartition"}
    assert repr(app) == "App('my-app')"


def test_every_key_is_a_keyword_of_applications_for_type_checkers() -> None:
    assert set(Settings.__annotations__) == {key.replace(".", "_") for key in KEYS}
