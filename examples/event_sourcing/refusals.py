"""A read model that nobody thought of at first: how often commands were refused, and why.

It is another application on the same events. Its first start replays all of them, while the bank goes on.
"""

from __future__ import annotations

from millstream import App

app = App("bank-refusals", config={"execution.mode": "local", "auto.offset.reset": "earliest"})
events = app.stream("bank-events", value=dict)
refusals = events.filter(lambda event: event["kind"] == "refused")
reasons = refusals.group_by(lambda _account, event: event["command"]["kind"], key=str).count(store="refusals")
reasons.to_stream().to("bank-refusals")

if __name__ == "__main__":
    app.run()
