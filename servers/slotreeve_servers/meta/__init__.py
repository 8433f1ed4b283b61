"""The meta server: its elected leader keeps leases and the slot table."""
