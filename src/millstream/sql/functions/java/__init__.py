"""Behaviour of Java's standard library that the dialect shows: text of values, hash order, patterns, URIs."""
