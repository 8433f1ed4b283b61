"""What the registry recorded, as tables: event log -> raw -> cleaned (and quarantine) -> marts."""
