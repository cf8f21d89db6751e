"""Three signs of a stolen card, and one topic of alerts.

- Many payments: more than five within any minute, counted in sliding windows.
- Small, then large: a thief tests a card with a small payment, and makes a large one soon after. The processor stores
  small payments in a window store, where they expire.
- A device that the owner has never used: a join with a table.

A burst of payments would cause a burst of alerts, so alerts are deduplicated: one per card and sign in ten minutes.
"""

from __future__ import annotations

from typing import Any

from millstream import App, FixedKeyProcessor, Record, col, sliding

Payment = dict[str, Any]
Alert = dict[str, Any]

MANY = 5
SMALL, LARGE = 2, 500
SOON = 10 * 60_000


class SmallThenLarge(FixedKeyProcessor[str, Payment, Alert]):
    """Stores the small payments of a card, and reports a large payment that follows soon."""

    def init(self) -> None:
        self.small = self.context.store("small-payments")

    def process(self, record: Record[str, Payment]) -> None:
        amount, time = record.value["amount"], record.timestamp
        if amount <= SMALL:
            self.small.put(record.key, amount, time)
        elif amount >= LARGE and (tries := self.small.fetch(record.key, time - SOON, time)):
            alert = {"sign": "small then large", "tries": len(tries), "amount": amount}
            self.context.forward(record.with_value(alert))


def too_many(count: int) -> Alert:
    return {"sign": "many payments", "count": count}


def with_device(payment: Payment, devices: list[str] | None) -> Payment:
    return {**payment, "known": devices is not None and payment["device"] in devices}


def unknown_device(payment: Payment) -> Alert:
    return {"sign": "unknown device", "device": payment["device"]}


app = App("fraud")
app.add_store("small-payments", "window", key=str, value=float, retention="20m", window_size="1ms")
payments = app.stream("payments").filter(col("amount").is_not_null())
devices = app.table("devices", store="devices")

counts = payments.group_by_key().windowed_by(sliding("1m", grace="30s")).count(store="payments-per-minute")
minutes = counts.filter(lambda count: count > MANY).to_stream(lambda window, _: window.key, key_serde=str)
many = minutes.filter(lambda count: count is not None).map_values(too_many)

patterns = payments.process_values(SmallThenLarge, "small-payments")

checked = payments.left_join(devices, with_device)
strange = checked.filter(lambda payment: not payment["known"]).map_values(unknown_device)

alerts = many.merge(patterns, strange, name="signs")
alerts.deduplicate("10m", by=col("sign"), store="alerted").to("alerts")

if __name__ == "__main__":
    app.run()
