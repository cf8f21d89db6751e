"""The schemas of repartition topics and changelogs are under subjects of their own, in every registry."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest

from millstream import App, TestDriver, avro
from millstream.errors import IncompatibleSchemaError
from millstream.registry import SchemaRegistry


@dataclass
class Order:
    shop: str
    amount: int


def total(**fields: Any) -> Any:
    """A version of the type of the store's values."""
    return make_dataclass("Total", [(name, kind, default) for name, (kind, default) in fields.items()])


FIRST = total(amount=(int, 0))


def shop(name: str, value: Any) -> App:
    app = App(name)
    orders = app.stream(f"{name}-orders", value=avro(Order))
    by_shop = orders.group_by(lambda order: order.shop, key=avro(str))
    by_shop.aggregate(value, lambda _shop, _order, old: old, value=avro(value), store="totals")
    return app


def run(registry: SchemaRegistry, app: App) -> None:
    with TestDriver(app, registry=registry) as driver:
        driver.input(f"{app.id}-orders").pipe("k", Order("north", 3))


def test_internal_topics_have_subjects_of_their_own(registry: SchemaRegistry, subject: str) -> None:
    name = subject.removesuffix("-value")
    run(registry, shop(name, FIRST))
    internal = [f"{name}-totals-{topic}-{part}" for topic in ("changelog", "repartition") for part in ("key", "value")]
    assert {*internal, f"{name}-orders-value"} <= set(registry.subjects())
    changelog = registry.latest(f"{name}-totals-changelog-value")
    assert changelog.version == 1
    assert '"Total"' in registry.schema(changelog.id).text
    source = registry.latest(f"{name}-orders-value")
    assert registry.latest(f"{name}-totals-repartition-value").schema == source.schema


def test_the_schema_of_a_changelog_evolves_by_the_level_of_its_subject(comparing: SchemaRegistry, subject: str) -> None:
    name = subject.removesuffix("-value")
    changelog = f"{name}-totals-changelog-value"
    run(comparing, shop(name, FIRST))
    run(comparing, shop(name, total(amount=(int, 0), count=(int, 0))))
    assert comparing.versions(changelog) == [1, 2]
    with pytest.raises(IncompatibleSchemaError, match="amount"):
        run(comparing, shop(name, total(amount=(str, ""), count=(int, 0))))
    assert comparing.versions(changelog) == [1, 2]
    assert comparing.versions(f"{name}-totals-repartition-value") == [1]
