"""Benchmarks: one question a file; README.md says how to read them."""
