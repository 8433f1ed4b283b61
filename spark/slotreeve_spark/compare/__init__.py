"""Plugins compared by evidence: slot functions on keys, balancers on traces, elections on simulated clusters."""
