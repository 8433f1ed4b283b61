"""The hooks of plugins."""

from __future__ import annotations

import inspect

import pluggy
import pytest
from slotreeve import hookspecs
from slotreeve.hookspecs import PROJECT, hookimpl
from slotreeve.offers import Port

HOOKS = sorted(name for name in vars(hookspecs) if name.startswith("slotreeve_"))


def manager() -> pluggy.PluginManager:
    made = pluggy.PluginManager(PROJECT)
    made.add_hookspecs(hookspecs)
    return made


def test_every_port_has_a_hook_that_offers_plugins_for_it() -> None:
    offering = [name for name in HOOKS if inspect.signature(getattr(hookspecs, name)).return_annotation != "None"]
    assert offering == sorted(f"slotreeve_{port.value}s" for port in Port)


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_known_to_the_plugin_manager_and_documented(hook: str) -> None:
    assert hasattr(manager().hook, hook)
    assert getattr(hookspecs, hook).__doc__


def test_a_plugin_with_an_argument_that_the_hook_does_not_have_is_refused() -> None:
    class Plugin:
        @hookimpl
        def slotreeve_node_joined(self, nodes: object) -> None:
            """The argument is called ``node``."""

    with pytest.raises(pluggy.PluginValidationError, match="nodes"):
        manager().register(Plugin())
