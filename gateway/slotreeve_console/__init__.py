"""What operators and their tools read of a server over HTTP: health and metrics."""
