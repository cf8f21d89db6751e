"""Plans the queries that answer a request: pull queries read a table or a stream as it is now, push queries go on."""
