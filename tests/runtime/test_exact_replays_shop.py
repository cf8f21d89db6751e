"""A shop on a backlog: a join and a processor read the same re-keyed stream, and more exchanges follow."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.backlogs import (
    GRACE,
    MINUTE,
    WINDOW,
    Arrivals,
    ByKey,
    driven,
    every_batch_size,
    every_task_count,
    record,
    results,
    write,
)

from millstream import App, Processor, Record, Stream, TopologyWarning, Windowed, join_window, tumbling
from millstream.log import Log, open_log
from millstream.runtime.in_process.batches import InProcessRun

CHECKOUT_INPUTS = ("orders", "payments")
SHOP_INPUTS = (*CHECKOUT_INPUTS, "customers")
SHOP_OUTPUTS = ("paid", "enriched", "revenue", "late-revenue", "ranking")


class Reminders(Processor[str, str, str, int]):
    """Reminds of orders that are unpaid after a quarter of an hour of stream time."""

    def init(self) -> None:
        self.unpaid = self.context.store("unpaid")
        self.context.schedule("1m", "stream", self.remind)

    def process(self, record: Record[str, str]) -> None:
        if record.value == "payment":
            self.unpaid.delete(record.key)
        else:
            self.unpaid.put(record.key, record.timestamp)

    def remind(self, now: int) -> None:
        for order, placed in self.unpaid.all():
            if now - placed >= 15 * MINUTE:
                self.unpaid.delete(order)
                self.context.forward(Record(order, now - placed, now))


def with_payment(order_id: str, order: dict[str, Any], payment: dict[str, Any] | None) -> dict[str, Any]:
    return {"order": order_id, **order, "paid": payment and payment["amount"]}


def with_country(order: dict[str, Any], customer: dict[str, Any] | None) -> dict[str, Any]:
    return {**order, "country": customer["country"] if customer else "unknown"}


def by_hour(window: Windowed[str], total: int) -> tuple[str, dict[str, Any]]:
    return str(window.start), {"product": window.key, "total": total}


def checkout(directory: Path, tasks: int, **config: Any) -> App:
    """Joins orders with re-keyed payments, beside a stateful processor of both."""
    app = App("shop", config={"state.dir": str(directory), "num.tasks": tasks, **config})
    add_checkout(app)
    return app


def shop(directory: Path, tasks: int, **config: Any) -> App:
    """The same, with three more exchanges behind the join."""
    app = App("shop", config={"state.dir": str(directory), "num.tasks": tasks, **config})
    paid = add_checkout(app)
    customers = app.table("customers", store="customers")
    enriched = paid.select_key(lambda order: order["customer"], key=str).left_join(customers, with_country)
    enriched.to("enriched")
    settled = enriched.filter(lambda order: order["paid"] is not None)
    minutes = settled.group_by(lambda order: order["country"], key=str, name="by-country").windowed_by(
        tumbling("5m", grace="12m"), emit="close"
    )
    revenue = minutes.sum(lambda order: order["paid"], value=int, store="revenue")
    revenue.to_stream(lambda window, _total: window.key, key_serde=str).to("revenue")
    revenue.late().to("late-revenue")
    hours = settled.group_by(lambda order: order["product"], key=str, name="by-product").windowed_by(
        tumbling("1h", grace="12m")
    )
    totals = hours.sum(lambda order: order["paid"], value=int, store="product-hours")
    totals.group_by(by_hour, key=str, name="by-hour").aggregate(
        dict,
        lambda row, ranking: {**ranking, row["product"]: row["total"]},
        lambda row, ranking: {product: total for product, total in ranking.items() if product != row["product"]},
        store="ranking",
    ).to_stream().to("ranking")
    return app


def add_checkout(app: App) -> Stream[str, Any]:
    orders = app.stream("orders")
    payments = app.stream("payments").select_key(lambda payment: payment["order"], key=str)
    paid = orders.left_join(payments, with_payment, join_window(WINDOW, grace=GRACE))
    paid.to("paid")
    app.add_store("unpaid", value=int)
    events = orders.map_values(lambda _order: "order", value=str).merge(
        payments.map_values(lambda _payment: "payment", value=str)
    )
    with pytest.warns(TopologyWarning):  # the processor reads payments by their own key: this is part of the case
        events.process(Reminders, "unpaid", key=str, value=int).to("reminders")
    return paid


def fill_shop(log: Log, count: int = 300) -> dict[str, int]:
    """Writes an hour of orders, payments and customers; returns the amount of each order that is paid in its window."""
    rng = random.Random(19)
    topics: Arrivals = {"orders": [], "payments": [], "customers": []}
    matches: dict[str, int] = {}
    for number in range(count):
        placed, amount = number * 60 * MINUTE // count, rng.randrange(5, 200)
        order = {"customer": f"c{rng.randrange(25)}", "product": f"p{rng.randrange(6)}"}
        arrived = placed + rng.randrange(MINUTE)
        topics["orders"].append((arrived, record(f"o{number}", order, placed)))
        if rng.random() < 0.9:
            paid = placed + rng.randrange(12 * MINUTE)
            payment = {"order": f"o{number}", "amount": amount}
            topics["payments"].append((paid + rng.randrange(MINUTE), record(f"p{number}", payment, paid)))
            if paid - placed <= WINDOW:
                matches[f"o{number}"] = amount
        if number % 3 == 0:
            customer = {"country": rng.choice(["BE", "NL", "DE"])}
            topics["customers"].append((placed, record(f"c{rng.randrange(20)}", customer, placed)))
    write(log, topics)
    return matches


def matched(paid: ByKey) -> dict[str, int]:
    """The amounts of the orders that came out with a payment."""
    values = [json.loads(value or b"") for rows in paid["paid"].values() for value, _time in rows]
    return {order["order"]: order["paid"] for order in values if order["paid"] is not None}


def expected_of_shop(log: Log, directory: Path, tasks: int) -> ByKey:
    """The results of the driver.

    The stream time of a task decides when unmatched orders and closed windows come out, so the driver has as many
    partitions as there are tasks. In the driver, the punctuators of all sub-topologies of a partition share a stream
    time. In an application each sub-topology has its own, so the reminders come from a driver with theirs alone.
    """
    reminders = driven(checkout(directory, tasks), log, CHECKOUT_INPUTS, ["reminders"], tasks)
    return {**driven(shop(directory, tasks), log, SHOP_INPUTS, SHOP_OUTPUTS, tasks), **reminders}


@every_task_count
@every_batch_size
def test_a_join_beside_a_processor_of_the_same_rekeyed_stream_finds_every_match(
    records: int, tasks: int, tmp_path: Path
) -> None:
    """Each order comes out once, and the results behind three more exchanges are those of the driver."""
    log = open_log(tmp_path)
    matches = fill_shop(log)
    with InProcessRun(shop(tmp_path, tasks), records=records) as run:
        run.run()
    outputs = results(log, (*SHOP_OUTPUTS, "reminders"))
    assert matched(outputs) == matches
    assert {key: len(rows) for key, rows in outputs["paid"].items() if len(rows) > 1} == {}
    assert outputs == expected_of_shop(log, tmp_path, tasks)
    assert outputs["late-revenue"] == {}


@every_batch_size
def test_a_table_behind_four_exchanges_does_not_depend_on_the_number_of_tasks(records: int, tmp_path: Path) -> None:
    """No row of it depends on stream time, or on the order between keys."""
    log = open_log(tmp_path)
    fill_shop(log)
    with InProcessRun(shop(tmp_path, 4), records=records) as run:
        run.run()
    expected = driven(shop(tmp_path, 1), log, SHOP_INPUTS, ["ranking"], partitions=1)
    assert results(log, ["ranking"]) == expected


@every_task_count
def test_stops_between_batches_of_different_sizes_change_no_result(tasks: int, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    matches = fill_shop(log)
    rng = random.Random(3)
    going = True
    while going:
        with InProcessRun(shop(tmp_path, tasks), records=rng.randrange(1, 200), cold=rng.random() < 0.5) as run:
            going = all(run.batch() for _ in range(rng.randrange(1, 4)))
    outputs = results(log, (*SHOP_OUTPUTS, "reminders"))
    assert matched(outputs) == matches
    assert outputs == expected_of_shop(log, tmp_path, tasks)
