"""Topologies of links among the nodes of an ensemble: which are cut, in one direction or both, for good.

A node is a *centre* if packets pass in both directions between it and so many others that they are a majority with it.
Where there is a centre, one of them has to lead (invariant I23)::

    python -m slotreeve_conformance.topologies --nodes 5 --kind symmetric

plays all of them, or ``--most`` of them at random, on an election that is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import sys
from collections.abc import Callable, Iterator, Sequence

from slotreeve_conformance.election_backend import ElectionBackend, InstalledBackend
from slotreeve_conformance.ensemble import Ensemble

Link = tuple[str, str]
Topology = frozenset[Link]
"""The links, from and to, over which nothing passes."""

LED_WITHIN_SECONDS = 5.0
LED_FOR_SECONDS = 10.0
SAMPLE_SECONDS = 0.05


def links_of(names: Sequence[str]) -> list[Link]:
    """All links, each direction for itself."""
    return list(itertools.permutations(names, 2))


def all_one_way(names: Sequence[str]) -> Iterator[Topology]:
    """Every set of cut links but the empty one."""
    links = links_of(names)
    for count in range(1, len(links) + 1):
        yield from map(frozenset, itertools.combinations(links, count))


def all_symmetric(names: Sequence[str]) -> Iterator[Topology]:
    """Every set of pairs between which nothing passes."""
    pairs = list(itertools.combinations(names, 2))
    for count in range(len(pairs) + 1):
        for chosen in itertools.combinations(pairs, count):
            yield frozenset(link for a, b in chosen for link in ((a, b), (b, a)))


def random_one_way(names: Sequence[str], rng: random.Random) -> Topology:
    """Links that are cut with one probability, which is drawn too, each for itself."""
    share = rng.uniform(0.1, 0.7)
    return frozenset(link for link in links_of(names) if rng.random() < share)


def neighbours(name: str, names: Sequence[str], topology: Topology) -> set[str]:
    """The nodes that exchange packets with ``name`` in both directions."""
    return {other for other in names if other != name and not {(name, other), (other, name)} & topology}


def centres(names: Sequence[str], topology: Topology) -> list[str]:
    """The nodes that are a majority with their neighbours."""
    return [name for name in names if 2 * (len(neighbours(name, names, topology)) + 1) > len(names)]


def impose(ensemble: Ensemble, topology: Topology) -> None:
    """Cut the links; connections stay open, as where packets are dropped."""
    for source, target in sorted(topology):
        ensemble.network.partition([source], [target], one_way=True)


async def is_led_under(ensemble: Ensemble, topology: Topology) -> float:
    """Impose the topology on an ensemble that runs, and watch. Returns the seconds after which a centre led for good; 0
    where there is no centre.

    Raises:
        AssertionError: no centre leads in time, or not for long enough, or one of its neighbours does not follow it;
            or somebody leads although there is no centre.
    """
    names, now = ensemble.names, asyncio.get_running_loop().time
    possible = centres(names, topology)
    began = since = now()
    leading = ensemble.leading()
    impose(ensemble, topology)
    while now() < began + LED_WITHIN_SECONDS + LED_FOR_SECONDS:
        await asyncio.sleep(SAMPLE_SECONDS)
        before, leading = leading, [name for name in ensemble.leading() if _is_followed(ensemble, name, topology)]
        if leading != before:
            since = now()
    described = f"{', '.join(f'{source} -> {target}' for source, target in sorted(topology))} cut"
    if not possible:
        assert not ensemble.leading(), f"{ensemble.leading()} leads without a majority; {described}"
        return 0.0
    assert leading, f"nobody leads with its neighbours behind it, although {', '.join(possible)} could; {described}"
    assert since - began <= LED_WITHIN_SECONDS, f"{leading} leads only since {since - began:.3g} s; {described}"
    return since - began


def _is_followed(ensemble: Ensemble, leader: str, topology: Topology) -> bool:
    return all(
        ensemble.election(name).leadership().leader == leader
        for name in neighbours(leader, ensemble.names, topology) | {leader}
    )


def play(backend: ElectionBackend, topology: Topology, nodes: int, seed: int = 1) -> float:
    """Run an ensemble, led and with one write, and impose the topology on it; see :func:`is_led_under`."""
    seconds = []

    async def main(rng: random.Random) -> None:
        names = [f"meta-{number}" for number in range(1, nodes + 1)]
        async with Ensemble(backend.build, backend.network(), names, backend.clock(), rng) as ensemble:
            await ensemble.start()
            await ensemble.write(await ensemble.agreed(), "k", b"v")
            await asyncio.sleep(backend.settle_seconds)
            seconds.append(await is_led_under(ensemble, topology))
            ensemble.check()

    backend.run(main, seed)
    return seconds[0]


# --- the command -----------------------------------------------------------------------------------------------------

KINDS = ("one-way", "symmetric", "random")


def _chosen(kind: str, names: Sequence[str], most: int, seed: int) -> list[Topology]:
    rng = random.Random(seed)
    if kind == "random":
        return [random_one_way(names, rng) for _ in range(most)]
    every: Callable[[Sequence[str]], Iterator[Topology]] = all_one_way if kind == "one-way" else all_symmetric
    found = list(every(names))
    return found if most >= len(found) else rng.sample(found, most)


def main(arguments: Sequence[str]) -> int:
    """Play the topologies; 1 if one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m slotreeve_conformance.topologies", description=__doc__)
    parser.add_argument("--election", default="fle", help="name of the election (default: fle)")
    parser.add_argument("--nodes", type=int, default=5, help="number of nodes (default: 5)")
    parser.add_argument("--kind", choices=KINDS, default="symmetric", help="which topologies (default: symmetric)")
    parser.add_argument("--most", type=int, default=1 << 20, help="play at most so many (random: exactly so many)")
    parser.add_argument("--seed", type=int, default=1, help="of the choice (default: 1)")
    asked = parser.parse_args(arguments)
    if asked.kind == "random" and asked.most == 1 << 20:
        parser.error("--kind random needs --most")
    backend = InstalledBackend()
    backend.name = asked.election
    names = [f"meta-{number}" for number in range(1, asked.nodes + 1)]
    chosen = _chosen(asked.kind, names, asked.most, asked.seed)
    longest, failures = 0.0, 0
    for topology in chosen:
        try:
            longest = max(longest, play(backend, topology, asked.nodes))
        except AssertionError as error:
            failures += 1
            print(f"FAILED: {error}", flush=True)
    with_centre = sum(bool(centres(names, topology)) for topology in chosen)
    print(
        f"{len(chosen)} topologies of {asked.nodes} nodes ({asked.kind}, seed {asked.seed}), {with_centre} of them "
        f"with a centre: {failures} failed; a centre led for good after {longest:.3g} s at the latest"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
