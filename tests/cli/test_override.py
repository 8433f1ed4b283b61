"""``slotreeve override``: set, seen, listed and cleared."""

from __future__ import annotations

from slotreeve_cli.instances import provider_line
from slotreeve_cli.main import command_line
from slotreeve_client import Instance, Provider
from slotreeve_protocol.envelope import encode_instance
from slotreeve_protocol.overrides import Override
from typer.testing import CliRunner


def test_people_see_what_is_overridden_and_what_the_provider_said() -> None:
    provider = Provider("r", "", (encode_instance(Instance("a", 1)),))
    drained = provider.overridden({"a:1": Override(drain=True, enabled=False)})
    assert provider_line(drained).startswith("a:1  weight 0 (said 100)  health passing  enabled no (said yes)")
    assert provider_line(provider).startswith("a:1  weight 100  health passing  enabled yes")


def test_an_override_of_nothing_is_wrong_usage() -> None:
    result = CliRunner().invoke(command_line("override"), ["override", "set", "a.B", "a:1"])
    assert result.exit_code == 2
    assert "at least one of" in result.output
