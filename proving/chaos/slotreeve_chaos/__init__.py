"""Faults on real processes, a recorded history, and its checker; and real databases, with faults of their own."""
