"""The effect of each kind of statement outside of its answer. A server grants or refuses statements by it."""

from __future__ import annotations

from typing import Literal

from millstream.sql.syntax import tree

Effect = Literal["reads", "inserts", "controls", "defines"]

EFFECTS: dict[type[tree.Statement], Effect] = {
    tree.Select: "reads",
    tree.Print: "reads",
    tree.Show: "reads",
    tree.Describe: "reads",
    tree.Explain: "reads",
    tree.AssertTopic: "reads",
    tree.AssertSchema: "reads",
    tree.AssertSource: "reads",
    tree.AssertValues: "reads",
    tree.SetProperty: "reads",
    tree.UnsetProperty: "reads",
    tree.Define: "reads",
    tree.Undefine: "reads",
    tree.InsertValues: "inserts",
    tree.Terminate: "controls",
    tree.AlterSystem: "controls",
    tree.RunScript: "defines",
    tree.CreateSource: "defines",
    tree.CreateAs: "defines",
    tree.InsertInto: "defines",
    tree.AlterSource: "defines",
    tree.DropSource: "defines",
    tree.CreateType: "defines",
    tree.DropType: "defines",
    tree.Connector: "defines",
}
"""The effect of each statement. SET, UNSET, DEFINE and UNDEFINE change only the request or session that they are in."""


def effect_of(statement: tree.Statement) -> Effect:
    """Returns the effect of a statement."""
    return EFFECTS[type(statement)]
