"""The domain model: values, their order, their rules. No I/O, no clock."""
