"""The statements that an application consists of, and what takes the place of the others."""

from __future__ import annotations

from millstream.errors import SqlStatementError
from millstream.sql.syntax import tree

DEFINITIONS = (
    tree.CreateSource,
    tree.CreateAs,
    tree.InsertInto,
    tree.CreateType,
    tree.SetProperty,
    tree.UnsetProperty,
    tree.Define,
    tree.Undefine,
)
"""The statements of a script that an application runs. The others have effects, and a start is no place for effects."""

_SHELL = "millstream sql, the shell, executes it"
_REMEDIES: dict[type[tree.Statement], str] = {
    tree.InsertValues: "write the records with millstream produce, or in the shell: millstream sql -f",
    tree.DropSource: "remove the CREATE statement from the script; millstream topics delete deletes a topic",
    tree.DropType: "remove the CREATE TYPE statement from the script",
    tree.AlterSource: "add the column to the CREATE statement of the stream or table",
    tree.AlterSystem: "give the setting to the application: millstream run -c KEY=VALUE, or SET",
    tree.Terminate: "remove the statement of the query from the script, and start the application again",
    tree.Select: "give it to app.stream_from_sql or app.table_from_sql, write CREATE … AS SELECT, or ask in the shell: "
    "millstream sql",
    tree.Print: "millstream consume prints the records of a topic",
    tree.Show: _SHELL,
    tree.Describe: f"{_SHELL}; millstream describe shows the topology of an application",
    tree.Explain: f"{_SHELL}; millstream describe shows the topology of an application",
    tree.AssertTopic: f"{_SHELL}; a test file has ASSERT statements, too: millstream sql test",
    tree.AssertSchema: f"{_SHELL}; a test file has ASSERT statements, too: millstream sql test",
    tree.Connector: "run Kafka Connect or Spark beside the application",
}


def check_definition(statement: tree.Statement) -> None:
    """Checks that a statement is a definition.

    Raises:
        SqlStatementError: It has an effect or an answer; with what to do instead.
    """
    if isinstance(statement, DEFINITIONS):
        return
    raise SqlStatementError(
        f"{_words(statement)} is not a definition, and cannot be part of an application",
        hint=_REMEDIES.get(
            type(statement), "an application has CREATE, CREATE … AS SELECT, INSERT INTO … SELECT, SET and DEFINE"
        ),
        at=statement.at,
    )


def _words(statement: tree.Statement) -> str:
    """Returns the keywords that name a statement."""
    match statement:
        case tree.InsertValues():
            return "INSERT INTO … VALUES"
        case tree.Connector():
            return f"{statement.action} CONNECTOR"
        case tree.DropSource() | tree.DropType() | tree.AlterSource() | tree.AssertTopic() | tree.AssertSchema():
            return " ".join(statement.text.split()[:2]).upper()
    return statement.text.split()[0].rstrip(";").upper()
