"""The logical plan: a graph of frozen nodes, one for each operator."""
