"""Offers and the options of plugins."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from slotreeve.offers import API_VERSION, Offer, Options, Port
from slotreeve.ports import Assigner, Balancer, Election, Face, SlotFunction, Transport


class Speed(Options):
    factor: int = 1


def test_every_port_has_its_protocol() -> None:
    protocols = {port.value: port.protocol for port in Port}
    assert protocols == {
        "election": Election,
        "slot_function": SlotFunction,
        "assigner": Assigner,
        "balancer": Balancer,
        "transport": Transport,
        "face": Face,
    }


def test_options_are_frozen_and_refuse_unknown_keys() -> None:
    assert Speed(factor=2).factor == 2
    with pytest.raises(ValidationError, match="Extra inputs"):
        Speed.model_validate({"faktor": 2})
    with pytest.raises(ValidationError, match="frozen"):
        Speed().factor = 3


def test_an_offer_without_options_accepts_none_and_fits_the_present_api() -> None:
    offer = Offer("mine", lambda options, context: object(), "for tests")
    assert offer.api_version == API_VERSION
    with pytest.raises(ValidationError):
        offer.options.model_validate({"anything": 1})
