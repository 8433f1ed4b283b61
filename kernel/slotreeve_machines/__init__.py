"""What state machines are run with: the driver of their steps and effects, their disk, their watched state, and
the check of what plugins plan."""
