"""Results for people: a summary for the terminal, and one HTML file that needs nothing else."""
