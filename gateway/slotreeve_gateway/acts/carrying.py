"""Acts are previewed and carried out."""

from __future__ import annotations

from slotreeve_gateway.acts.actor import Actor
from slotreeve_gateway.acts.kinds import (
    Act,
    ClearOverride,
    DeleteValue,
    HandOver,
    OverrideInstance,
    SetSetting,
    UnsetSetting,
    WriteValue,
    check_act,
)
from slotreeve_gateway.acts.ordering import order
from slotreeve_gateway.acts.outcome import ActOutcome
from slotreeve_gateway.acts.overriding import override
from slotreeve_gateway.acts.resigning import hand_over
from slotreeve_gateway.acts.setting import change_setting
from slotreeve_gateway.acts.writing import write


async def preview(actor: Actor, act: Act) -> ActOutcome:
    """What an act would do on the state as it is; it changes nothing. Raises: as :func:`carry_out`."""
    return await _do(actor, act, True)


async def carry_out(actor: Actor, act: Act) -> ActOutcome:
    """Do it, and log who does.

    Raises:
        ModelError: a name or a value in it is not good.
        Forbidden: it is the key of something that has ways of its own.
        NotThere: there is no such server.
        RequestError: nobody could take over, or no such meta server answers.
        VersionConflict: somebody else has written meanwhile.
        Refused, Unreachable, ClientError: no meta server tells the state, or takes the change.
    """
    return await _do(actor, act, False)


async def _do(actor: Actor, act: Act, is_dry: bool) -> ActOutcome:
    check_act(act)
    match act:
        case WriteValue() | DeleteValue():
            return await write(actor, act, is_dry)
        case OverrideInstance() | ClearOverride():
            return await override(actor, act, is_dry)
        case SetSetting() | UnsetSetting():
            return await change_setting(actor, act, is_dry)
        case HandOver():
            return await hand_over(actor, act, is_dry)
        case _:
            return await order(actor, act, is_dry)
