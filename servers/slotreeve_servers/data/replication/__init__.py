"""How the holders of a slot get to have the same (docs/copies.md)."""
