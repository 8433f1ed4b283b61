"""Our own assigners and balancers under the suites that third parties' have to pass."""

from __future__ import annotations

from slotreeve.ports import Assigner, Balancer
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.default_balancer import DefaultBalancer
from slotreeve_balancer.even_assigner import EvenAssigner
from slotreeve_balancer.even_balancer import EvenBalancer, LoadAwareEvenBalancer
from slotreeve_balancer.options import DefaultAssignerOptions, DefaultBalancerOptions, EvenBalancerOptions
from slotreeve_conformance.assigner import AssignerContract
from slotreeve_conformance.balancer import BalancerContract
from slotreeve_conformance.load_aware import LoadAwareBalancerContract


class TestDefaultAssigner(AssignerContract):
    def build(self) -> Assigner:
        return DefaultAssigner(DefaultAssignerOptions())


class TestEvenAssigner(AssignerContract):
    def build(self) -> Assigner:
        return EvenAssigner()


class TestDefaultBalancer(BalancerContract):
    def build(self) -> Balancer:
        return DefaultBalancer(DefaultBalancerOptions(), demoted_follows=True)


class TestEvenBalancer(BalancerContract):
    def build(self) -> Balancer:
        return EvenBalancer(EvenBalancerOptions())


class TestEvenBalancerInTheSmallestSteps(BalancerContract):
    def build(self) -> Balancer:
        return EvenBalancer(EvenBalancerOptions(moves_per_server=1))


class TestEvenBalancerWithTolerance(BalancerContract):
    def build(self) -> Balancer:
        return EvenBalancer(EvenBalancerOptions(tolerance=2))


class TestEvenBalancerByWrites(LoadAwareBalancerContract):
    def build(self) -> Balancer:
        return LoadAwareEvenBalancer(EvenBalancerOptions(loads="writes"))


class TestEvenBalancerByRecordsInTheSmallestStepsWithTolerance(LoadAwareBalancerContract):
    def build(self) -> Balancer:
        return LoadAwareEvenBalancer(EvenBalancerOptions(loads="records", moves_per_server=1, tolerance=2))
