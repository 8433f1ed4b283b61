"""The simulator: a whole cluster in one process on virtual time, with seeded faults and checks of invariants."""
