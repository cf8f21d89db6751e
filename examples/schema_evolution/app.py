"""The turnover by currency of orders whose schema evolves while the application runs.

Producers register their versions of the schema; a record carries the id of its version. The application reads every
version with its own schema, that of ``Order``: a field that the writer does not have gets its default, a whole number
becomes a float, and a field that the application does not know is dropped. An order that breaks the contract goes to
quarantine, with its own bytes, and is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream import App, avro, col, contract, rule


@dataclass(frozen=True)
class Order:
    id: str
    amount: float
    currency: str = "EUR"


@dataclass(frozen=True)
class Turnover:
    orders: int = 0
    amount: float = 0.0


def with_order(_currency: str, order: Order, turnover: Turnover) -> Turnover:
    return Turnover(turnover.orders + 1, turnover.amount + order.amount)


good = contract(
    rule("positive amount", col("amount") > 0),
    rule("known currency", col("currency").is_in("EUR", "USD")),
    on_violation="quarantine",
)

app = App("turnover")
orders = app.stream("shop-orders", value=avro(Order, namespace="shop"), contract=good)
by_currency = orders.group_by(lambda order: order.currency, key=str)
turnover = by_currency.aggregate(Turnover, with_order, value=avro(Turnover, namespace="shop"), store="turnover")
turnover.to_stream().to("turnover")

if __name__ == "__main__":
    app.run()
