"""The bill of materials of a package (CycloneDX 1.6): each library that it needs, in the version it was tested with.

It is made of what is installed beside this script, which is what ``constraints.txt`` says; two builds of one version on
one kind of machine give the same text.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FILE = "slotreeve.cdx.json"
"""The name of the bill in a wheel."""


def bill_of_materials(name: str, version: str, licence: str, libraries: Iterable[str], ours: Iterable[str]) -> str:
    """The bill of the package ``name``, which needs these libraries (requirements) and these packages of ours.

    Raises:
        PackageNotFoundError: a library is not installed here, so its version is not known.
    """
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"pkg:pypi/{name}@{version}"))
    bom.metadata.timestamp = None  # type: ignore[assignment]  # the same text for the same version
    bom.metadata.component = root = _component(name, version, licence, ComponentType.APPLICATION)
    known: dict[str, Component] = {}
    needed = [_library(library, known, bom) for library in libraries]
    for other in ours:
        component = _component(other, version, licence, ComponentType.LIBRARY)
        bom.components.add(component)
        needed.append(component)
    bom.register_dependency(root, needed)
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _library(text: str, known: dict[str, Component], bom: Bom) -> Component:
    """The component of a library; what it needs itself is added to the bill, too."""
    name = canonicalize_name(Requirement(text).name)
    if name in known:
        return known[name]
    found = distribution(name)
    known[name] = component = _component(name, found.version, _licence(found), ComponentType.LIBRARY)
    bom.components.add(component)
    bom.register_dependency(component, [_library(each, known, bom) for each in _needs(found)])
    return component


def _needs(found: Distribution) -> list[str]:
    every = [Requirement(each) for each in found.requires or ()]
    return [str(each) for each in every if each.marker is None or each.marker.evaluate({"extra": ""})]


def _licence(found: Distribution) -> str:
    named = [field for field in ("License-Expression", "License") if field in found.metadata]
    return found.metadata[named[0]] if named else ""


def _component(name: str, version: str, licence: str, kind: ComponentType) -> Component:
    url = PackageURL("pypi", None, canonicalize_name(name), version)
    # Some write the whole text of their licence where its name is expected.
    known = [LicenseFactory().make_from_string(licence)] if licence and len(licence.splitlines()) == 1 else []
    return Component(name=name, version=version, type=kind, purl=url, bom_ref=str(url), licenses=known)
