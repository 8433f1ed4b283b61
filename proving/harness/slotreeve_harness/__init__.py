"""Real servers for tests, demonstration and benchmarks: clusters of processes, and databases."""
