"""Elections: the one in use, those beside it, and the way from one to another."""
