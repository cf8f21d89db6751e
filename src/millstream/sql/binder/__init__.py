"""From the syntax tree to bound trees: names become columns, calls become functions, every node has a type."""
