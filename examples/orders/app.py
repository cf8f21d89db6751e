"""Orders joined with their customers, and visits of customers. Values are dataclasses.

Orders refer to customers by id. The foreign-key join updates its result when the state of the order or the address of
the customer changes, and deletes it with the order. Orders of a customer at most ten minutes apart form a visit: a
session, which a late order may extend or merge with another one. Updates of a visit are emitted immediately, so the
long grace period costs only state: shops that were offline may report days later.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream import App, session


@dataclass(frozen=True)
class Order:
    customer: str
    product: str
    amount: float
    state: str = "placed"


@dataclass(frozen=True)
class Customer:
    name: str
    city: str


@dataclass(frozen=True)
class Delivery:
    product: str
    state: str
    to: str


@dataclass(frozen=True)
class Visit:
    orders: int = 0
    amount: float = 0.0


def delivery(order: Order, customer: Customer) -> Delivery:
    return Delivery(order.product, order.state, f"{customer.name}, {customer.city}")


def with_order(order: Order, visit: Visit) -> Visit:
    return Visit(visit.orders + 1, visit.amount + order.amount)


def merged(earlier: Visit, later: Visit) -> Visit:
    return Visit(earlier.orders + later.orders, earlier.amount + later.amount)


app = App("orders")
orders = app.stream("orders", value=Order)
customers = app.table("customers", value=Customer, store="customers")

deliveries = orders.to_table(store="orders").join(
    customers, delivery, on=lambda order: order.customer, value=Delivery, store="deliveries"
)
deliveries.to_stream().to("deliveries")

placed = orders.filter(lambda order: order is not None and order.state == "placed")
visits = placed.group_by(lambda order: order.customer, key=str).windowed_by(session("10m", grace="7d"))
visits.aggregate(Visit, with_order, merged, value=Visit, store="visits").to_stream().to("visits")

if __name__ == "__main__":
    app.run()
