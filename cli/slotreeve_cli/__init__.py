"""The ``slotreeve`` command: one file a command."""
