"""What travels between processes: every message there is, and how it becomes bytes."""
