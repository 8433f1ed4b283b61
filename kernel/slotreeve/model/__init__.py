"""The domain model: values, their order and their rules. No I/O and no clock."""
