"""The deterministic simulator: a whole cluster on virtual time, faults by seed, invariants after every event."""
