"""What operators do through a gateway, for every face that offers it.

An act is values. Its preview says in sentences what it does on the live state; it is carried out in the name of who
asks; and its outcome has the act that undoes it.
"""

from __future__ import annotations

from slotreeve_gateway.acts.actor import Actor
from slotreeve_gateway.acts.carrying import carry_out, preview
from slotreeve_gateway.acts.kinds import Act, command_of
from slotreeve_gateway.acts.outcome import ActOutcome

__all__ = ["Act", "ActOutcome", "Actor", "carry_out", "command_of", "preview"]
