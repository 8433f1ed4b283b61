"""When a registration ends (docs/endings.md)."""
