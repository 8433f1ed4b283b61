"""Faults on real processes, a recorded history, and its checker."""
