"""The services of another registry in ours, as leases, while callers move from one to the other."""
