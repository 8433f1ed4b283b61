"""Clusters of real processes on this machine, for people, the demonstration, tests and benchmarks."""
