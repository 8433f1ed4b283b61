"""What clients subscribe to, and how they are told."""
