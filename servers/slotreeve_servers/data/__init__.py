"""The data server: leads and follows slots, tells sessions what changed."""
