"""Test suites for authors of plugins: one contract class for each port, and the virtual time they run on."""
