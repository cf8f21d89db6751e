"""The read side: the balances of the accounts, from the events alone.

They are a store, for queries over HTTP; and, with BANK_DATABASE in the environment, a table of PostgreSQL.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from millstream import App
from millstream.connect.postgres import PostgresSink

sys.path.insert(0, str(Path(__file__).parents[2]))
from examples.event_sourcing.app import NOTHING, apply

app = App("bank-balances", config={"execution.mode": "local"})
events = app.stream("bank-events", value=dict)
balances = events.group_by_key().aggregate(
    lambda: NOTHING, lambda _account, event, state: apply(state, event), store="balances"
)
balances.to_stream().to("bank-balances")

if "BANK_DATABASE" in os.environ:
    table = {
        "connection.url": os.environ["BANK_DATABASE"],
        "collection.name.format": "balances",
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "primary.key.fields": "account",
        "schema.evolution": "basic",
    }
    app.connect("balances", PostgresSink(table), topics=["bank-balances"])

if __name__ == "__main__":
    app.run()
