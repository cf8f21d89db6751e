"""Query views: the stores of applications, as any process can read them.

The rows of every named store are kept in SQLite tables that belong to the same database as the log. `changes` says what
a batch changed, `tables` writes it in the transaction that publishes the batch, `stores` reads it back through the
protocols of ``millstream.state``, and `reader` gives people the views they know from the test driver.
"""
