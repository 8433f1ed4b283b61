"""Test suites for plugins, one contract class for each port, and virtual time for them."""
