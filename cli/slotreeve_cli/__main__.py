"""``python -m slotreeve_cli`` is ``slotreeve``."""

from slotreeve_cli.main import main

main()
