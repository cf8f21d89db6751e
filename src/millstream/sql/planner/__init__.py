"""From a query of the syntax tree to steps: what is read, joined, filtered, grouped, projected and written."""
