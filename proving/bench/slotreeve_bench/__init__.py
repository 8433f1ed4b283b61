"""Benchmarks of a cluster of real processes."""
