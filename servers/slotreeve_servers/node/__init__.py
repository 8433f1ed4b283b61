"""What every server is made of: supervised loops, links to peers, heartbeats, records by slot, shutdown."""
