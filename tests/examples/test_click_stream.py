from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from examples.click_stream.app import app

from millstream import TestDriver

ANN = {"name": "Ann", "interests": ["tea"]}


@pytest.fixture
def driver() -> Iterator[TestDriver]:
    with TestDriver(app) as made:
        yield made


def enriched(driver: TestDriver) -> list[tuple[Any, Any]]:
    return [(click["page"], click["name"]) for click in driver.output("enriched-clicks").read_values()]


def searched(driver: TestDriver) -> list[tuple[Any, Any]]:
    return [(click["page"], click["terms"]) for click in driver.output("clicks-after-search").read_values()]


def test_a_click_is_joined_with_the_current_profile(driver: TestDriver) -> None:
    clicks, profiles = driver.input("clicks"), driver.input("profiles")
    clicks.pipe("u1", {"page": "/before"})
    profiles.pipe("u1", ANN)
    clicks.pipe("u1", {"page": "/known"})
    clicks.pipe("u2", {"page": "/stranger"})
    profiles.pipe("u1", None)
    clicks.pipe("u1", {"page": "/deleted"})
    assert driver.output("enriched-clicks").read_all()[1].value == {"page": "/known", **ANN}
    assert enriched(driver) == [("/before", None), ("/known", "Ann"), ("/stranger", None), ("/deleted", None)]


def test_a_click_is_joined_with_the_searches_of_the_preceding_five_seconds(driver: TestDriver) -> None:
    searches, clicks = driver.input("searches"), driver.input("clicks")
    searches.pipe("u1", {"terms": "too early"}, timestamp=9_999)
    searches.pipe("u1", {"terms": "first"}, timestamp=10_000)
    searches.pipe("u1", {"terms": "second"}, timestamp=15_000)
    searches.pipe("u2", {"terms": "somebody else's"}, timestamp=15_000)
    clicks.pipe("u1", {"page": "/tea"}, timestamp=15_000)
    searches.pipe("u1", {"terms": "afterwards"}, timestamp=15_001)
    assert searched(driver) == [("/tea", "first"), ("/tea", "second")]


def test_a_search_that_arrives_after_its_click_is_joined(driver: TestDriver) -> None:
    driver.input("clicks").pipe("u1", {"page": "/tea"}, timestamp=15_000)
    driver.input("searches").pipe("u1", {"terms": "late"}, timestamp=12_000)
    (click,) = driver.output("clicks-after-search").read_all()
    assert (click.key, click.timestamp) == ("u1", 15_000)
    assert click.value == {"page": "/tea", "name": None, "interests": [], "terms": "late"}


def test_clicks_without_a_user_are_enriched_but_not_joined_with_searches(driver: TestDriver) -> None:
    driver.input("searches").pipe(None, {"terms": "x"})
    driver.input("clicks").pipe(None, {"page": "/anonymous"})
    driver.input("clicks").pipe("u1", None)
    assert enriched(driver) == [("/anonymous", None)]
    assert searched(driver) == []
