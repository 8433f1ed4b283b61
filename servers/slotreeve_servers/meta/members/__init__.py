"""The servers of the cluster as the meta leader sees them."""
