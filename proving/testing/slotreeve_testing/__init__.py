"""A whole registry in the process of a test, on virtual time, for tests of programs that use slotreeve.

::

    async with registry() as reg:
        async with reg.connect() as client:
            ...
        await reg.advance(30)

    with registry_in_thread() as reg:
        requests.get(f"{reg.gateway_url}/v1/catalog/services")

docs/testing.md explains both.
"""

from slotreeve_testing.in_thread import RegistryInThread, registry_in_thread
from slotreeve_testing.life import FailureInServer, RegistryOptions
from slotreeve_testing.registry import RegistryUnderTest, registry

__all__ = [
    "FailureInServer",
    "RegistryInThread",
    "RegistryOptions",
    "RegistryUnderTest",
    "registry",
    "registry_in_thread",
]
