"""The vectors give the same results in real-time mode, with workers in this process and on Spark."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import vectors
from tests.conformance.spark_runner import Vector, input_topics, run_in_driver, run_vectors
from tests.conformance.test_spark_vectors import (
    FAILING,
    FAMILIES,
    can_be_cut,
    check,
    eligible,
    family_of,
    has_foreign_key_join,
    has_state_of_its_own,
    last_results,
    run,
    runs_at_once,
    sample,
)

ON_SPARK = 150
"""The number of vectors that run on Spark."""

RESTARTED_EVERY = 2
"""The number of steps after which an application stops and starts again."""


def run_local(chosen: list[Vector], **options: Any) -> list[dict[str, Any]]:
    return run(chosen, "local", mode="real_time", **options)


def of_sample(family: str) -> list[Vector]:
    """The vectors of the sample that can be restarted."""
    chosen = [vector for vector in sample() if family_of(vector) == family and not has_state_of_its_own(vector)]
    assert chosen
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.timeout(300)
def test_step_by_step(family: str) -> None:
    """The inputs are written one after the other."""
    chosen = eligible(family)
    for vector, got in zip(chosen, run_local(chosen), strict=True):
        check(vector, got)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.timeout(300)
def test_with_two_workers_step_by_step(family: str) -> None:
    """Sub-topologies of one partition are in different workers. Each worker has a copy of the global tables."""
    chosen = of_sample(family)
    for vector, got in zip(chosen, run_local(chosen, workers=2), strict=True):
        check(vector, got)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.timeout(300)
def test_inputs_that_exist_at_the_start_give_the_same_results(family: str) -> None:
    chosen = [vector for vector in eligible(family) if runs_at_once(vector)]
    for vector, got in zip(chosen, run_local(chosen, at_once=True, workers=2), strict=True):
        check(vector, got, at_once=True)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.timeout(300)
def test_inputs_of_several_topics_that_exist_at_the_start_give_the_results_of_micro_batches(family: str) -> None:
    """Of a foreign-key join only the last result of each key is compared: subscriptions and answers form a cycle."""
    chosen = [v for v in eligible(family) if len(input_topics(v)) > 1 and can_be_cut(v)]
    whole = run(chosen, "local", at_once=True)
    for vector, wanted, got in zip(chosen, whole, run_local(chosen, at_once=True, workers=2), strict=True):
        compared = last_results if has_foreign_key_join(vector) else vectors.text
        assert compared(got) == compared(wanted), vector["name"]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.timeout(300)
def test_restarts_between_steps_give_the_same_results(family: str) -> None:
    """The state of a task is complete in its task record and its changelogs, with and without its local page store."""
    chosen = of_sample(family)
    for vector, got in zip(chosen, run_local(chosen, restart_every=RESTARTED_EVERY), strict=True):
        check(vector, got)


@pytest.mark.parametrize("vector", FAILING, ids=[vector["name"] for vector in FAILING])
def test_a_vector_that_fails_does_so_at_the_same_step(vector: Vector) -> None:
    """Each vector runs in a separate application."""
    (got,) = run_local([vector])
    vectors.check(vector, got)
    assert got["outputs"] == vector.get("outputs", [])


def test_a_topic_chosen_by_each_record() -> None:
    """No vector covers this."""
    vector: Vector = {
        "topology": [
            {"id": "s", "op": "stream", "topics": ["in"], "key": "string", "value": "long"},
            {"op": "to", "from": "s", "topic_expr": ["concat", ["lit", "to-"], "key"]},
        ],
        "inputs": [{"topic": "in", "key": key, "value": 1, "ts": 5} for key in "aba"],
    }
    wanted = run_in_driver(vector)
    assert run_vectors([vector, vector], "local", mode="real_time") == [wanted, wanted]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_on_spark_step_by_step() -> None:
    every = sample()
    chosen = [every[number * len(every) // ON_SPARK] for number in range(ON_SPARK)]
    assert {family_of(vector) for vector in chosen} == set(FAMILIES)
    for vector, got in zip(chosen, run(chosen, mode="real_time", workers=2), strict=True):
        check(vector, got)
