"""From recorded history to a scenario of the simulator: an incident becomes a seed."""
