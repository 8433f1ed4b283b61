"""Assigners and balancers: ``default`` (as SOFARegistry's) and ``even`` (fair shares, few moves, zones)."""

from __future__ import annotations

from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.ports import Assigner, Balancer

from slotreeve_balancer.options import DefaultAssignerOptions, DefaultBalancerOptions, EvenBalancerOptions

__all__ = ["slotreeve_assigners", "slotreeve_balancers"]


def _build_default_assigner(options: DefaultAssignerOptions, context: Context) -> Assigner:
    from slotreeve_balancer.default_assigner import DefaultAssigner

    return DefaultAssigner(options)


def _build_even_assigner(options: Options, context: Context) -> Assigner:
    from slotreeve_balancer.even_assigner import EvenAssigner

    return EvenAssigner()


def _build_default_balancer(options: DefaultBalancerOptions, context: Context) -> Balancer:
    from slotreeve_balancer.default_balancer import DefaultBalancer

    # A meta server rejects a table with a missing follower (I5). A dry run has no node; it shows the original's step.
    demoted_leader = options.demoted_leader or ("follows" if context.node else "leaves")
    return DefaultBalancer(options, demoted_leader == "follows")


def _build_even_balancer(options: EvenBalancerOptions, context: Context) -> Balancer:
    from slotreeve_balancer.even_balancer import EvenBalancer, LoadAwareEvenBalancer

    # One that ignores loads must not look load-aware: the meta leader would plan anew whenever they change.
    return EvenBalancer(options) if options.loads == "ignore" else LoadAwareEvenBalancer(options)


@hookimpl
def slotreeve_assigners() -> list[Offer]:
    """The assigners."""
    return [
        Offer(
            "default",
            _build_default_assigner,
            "as SOFARegistry's: promotes a follower, else takes the server with the fewest slots",
            DefaultAssignerOptions,
        ),
        Offer("even", _build_even_assigner, "promotes followers, fills by fair share, keeps copies in different zones"),
    ]


@hookimpl
def slotreeve_balancers() -> list[Offer]:
    """The balancers."""
    return [
        Offer(
            "default",
            _build_default_balancer,
            "as SOFARegistry's: within 10 % of the average, a few moves a step",
            DefaultBalancerOptions,
        ),
        Offer(
            "even",
            _build_even_balancer,
            "within one slot of the fair share by weight, with the fewest moves, copies in different zones",
            EvenBalancerOptions,
        ),
    ]
