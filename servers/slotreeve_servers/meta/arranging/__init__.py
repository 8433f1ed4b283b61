"""The next slot table."""
