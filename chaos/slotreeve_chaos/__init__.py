"""Faults on real processes, a recorded history, and the checker that judges it."""
