"""The server: HTTP API, interactive queries, metrics, alerts and the web console."""
