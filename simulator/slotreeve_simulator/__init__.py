"""The whole cluster in one process on virtual time, with seeded faults and invariants checked at every turn."""
