"""slotreeve on Spark: what the registry recorded as tables, and plugins compared by evidence.

Nothing of the registry imports this package; it needs the extra ``slotreeve[spark]`` and a Java of version 17 or newer.
"""
