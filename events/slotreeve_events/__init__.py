"""The event log: one schema for the servers that write it and the pipeline that reads it."""
