"""Views: queryable copies of named stores in SQLite, which any process can read.

| module | contents |
| --- | --- |
| `changes` | the changes of a batch, for the views |
| `tables`, `counts`, `versions` | the tables, and writing to them in the transaction that publishes the batch |
| `commits` | the number and the time of the last commit of an application |
| `pages` | rows as bytes, page by page |
| `checksums`, `integrity` | checksums of rows, and the detection and rebuild of damaged views |
| `database` | connections and read transactions |
| `stores` | the protocols of ``millstream.state.api``, read from the tables |
| `reader` | opens the store interfaces of ``millstream.state.stores`` for queries |
"""
