"""What a data server holds of each slot."""
