"""The event log: one schema for the servers that write it and for the pipeline that reads it."""
