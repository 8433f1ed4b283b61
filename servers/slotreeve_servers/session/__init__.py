"""The session server: holds the clients, is the source of truth for what they published, pushes to subscribers."""
