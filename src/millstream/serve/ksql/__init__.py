"""SQL over HTTP: ksqlDB's API, and the editor of the console. A process of its own runs the queries."""
