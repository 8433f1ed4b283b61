"""What the registry does on this machine, in figures. Each measurement takes a running cluster and returns
parameters and results ready for JSON; times in milliseconds unless the name says otherwise."""
