"""What travels between processes: every message there is, how it becomes bytes, and what a connection is."""
