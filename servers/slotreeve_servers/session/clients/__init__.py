"""The clients of a session server: who comes, who stays, and who must go."""
