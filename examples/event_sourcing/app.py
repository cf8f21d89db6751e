"""Accounts as a sequence of events: commands are decided, events are the truth, read models follow the events.

A command ("withdraw 30 from ann") may be refused. The decision sees the present state of the account, which is what the
events so far have made of it. What was decided becomes an event, or a refusal. Events are never changed: a wrong one is
corrected by another event.
"""

from __future__ import annotations

from typing import Any

from millstream import App, FixedKeyProcessor, Record

Row = dict[str, Any]
NOTHING: Row = {"open": False, "balance": 0, "events": 0}


def decide(account: Row, command: Row) -> Row:
    """The event that a command causes, given the state of the account; a refusal is an event, too."""
    kind, amount = command["kind"], command.get("amount", 0)
    if kind == "open":
        return refused(command, "it is open") if account["open"] else {"kind": "opened"}
    if not account["open"]:
        return refused(command, "there is no such account")
    if kind == "deposit" and amount > 0:
        return {"kind": "deposited", "amount": amount}
    if kind == "withdraw" and amount > 0:
        if amount > account["balance"]:
            return refused(command, f"the balance is {account['balance']}")
        return {"kind": "withdrawn", "amount": amount}
    if kind == "correct":  # an operator found that an event was wrong: by how much, and which one
        return {"kind": "corrected", "amount": amount, "event": command["event"]}
    return refused(command, "it is not a command")


def refused(command: Row, reason: str) -> Row:
    return {"kind": "refused", "command": command, "reason": reason}


def apply(account: Row, event: Row) -> Row:
    """The state of an account after an event. The read model uses this function, too."""
    change = {"deposited": 1, "withdrawn": -1, "corrected": 1}.get(event["kind"], 0) * event.get("amount", 0)
    return {
        "open": account["open"] or event["kind"] == "opened",
        "balance": account["balance"] + change,
        "events": account["events"] + 1,
    }


class Decide(FixedKeyProcessor[str, Row, Row]):
    """Decides the commands of accounts, one after the other. The store has the state of each account."""

    def init(self) -> None:
        self.accounts = self.context.store("accounts")

    def process(self, record: Record[str, Row]) -> None:
        account = self.accounts.get(record.key) or NOTHING
        event = decide(account, record.value)
        self.accounts.put(record.key, apply(account, event))
        self.context.forward(record.with_value({**event, "number": account["events"] + 1}))


app = App("bank", config={"execution.mode": "local"})
app.add_store("accounts", view=False)
app.stream("bank-commands", value=dict).process_values(Decide, "accounts", value=dict).to("bank-events")

if __name__ == "__main__":
    app.run()
