"""The servers: meta keeps the slot table, data hold the slots, session hold the clients."""
