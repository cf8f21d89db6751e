"""Routes of applications, topics, consumer groups and dead letters."""
