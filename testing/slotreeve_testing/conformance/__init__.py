"""Suites of tests that every implementation of a port has to pass: subclass the contract, say how one is built."""
