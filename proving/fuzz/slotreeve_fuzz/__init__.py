"""Hostile input, guided by coverage: what decoders do with bytes that nobody meant."""
