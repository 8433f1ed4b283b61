"""Election by ZooKeeper's fast leader election with a quorum lease; no other service is needed. Offers ``fle``."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, NonNegativeInt, model_validator
from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.errors import ConfigError
from slotreeve.ports import Election


class FleOptions(Options):
    """Options of the fle election."""

    data_dir: str = Field(
        default="",
        description="Directory of this node's durable state (locked; its parent must exist); {node} in it stands for "
        "the node's name. Empty: kept in memory, so that a node that is restarted starts from nothing; several meta "
        "servers then need ephemeral = true.",
    )
    ephemeral: bool = Field(
        default=False,
        description="Several meta servers without data_dir are meant to be: the state is lost when a majority of them "
        "stops. Implies recover_lost_votes. The same on all nodes.",
    )
    recover_lost_votes: bool = Field(
        default=False,
        description="While all meta servers are connected, count the votes of those that have lost their data "
        "directory. For one restart of all, when too few are left that have kept theirs; what only the lost "
        "directories held is lost.",
    )
    begins_without: list[str] = Field(
        default_factory=list,
        description="Names of meta servers for which the first election of all does not wait. Otherwise it takes place "
        "once all meta servers are connected and all have new data directories, since a new directory may be in the "
        "place of a lost one. The same on all nodes.",
    )
    ping_interval_ms: int = Field(
        default=100, ge=5, le=60_000, description="Milliseconds between two pings of the leader to its followers."
    )
    lease_ms: int = Field(
        default=350,
        ge=20,
        le=600_000,
        description="Milliseconds that a leader may act after a ping that a quorum answered; also how long its "
        "followers wait for a silent leader. At least three ping intervals. The same on all nodes.",
    )
    snapshot_every_writes: int = Field(
        default=1_000, ge=1, le=1_000_000, description="Committed writes after which a snapshot replaces the log."
    )
    members: list[str] = Field(
        default_factory=list,
        description="Names of the meta servers that take part; none: all of cluster.meta. The others hold a copy of "
        "the state and never lead. The same on all nodes.",
    )
    port_shift: int = Field(
        default=0,
        ge=-10_000,
        le=10_000,
        description="Added to every port of this election, which is otherwise 2 above that of the meta server: two "
        "elections of this kind run beside each other while the cluster goes over to other members. The same on all "
        "nodes.",
    )
    moved: bool = Field(
        default=False,
        description="This meta server has an address that is not in the configuration of all the others yet: it "
        "connects to them by itself and announces where it is. For a server that takes the place of a dead one on "
        "another machine.",
    )
    weights: dict[str, NonNegativeInt] = Field(
        default_factory=dict,
        description="Weight of meta servers by name, where it is not 1. One of weight 0 votes without being counted, "
        "holds the state, and never leads. The same on all nodes.",
    )
    groups: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Names of the meta servers in each group; a quorum is more than half of the weight in more than "
        "half of the groups. Every server in exactly one; none: a single group. The same on all nodes.",
    )

    @model_validator(mode="after")
    def _lease_outlasts_pings(self) -> FleOptions:
        if self.lease_ms < 3 * self.ping_interval_ms:
            raise ValueError(
                f"lease_ms ({self.lease_ms}) must be at least three times ping_interval_ms ({self.ping_interval_ms}), "
                "or one late ping ends a leadership"
            )
        return self


def build(options: FleOptions, context: Context) -> Election:
    """The election of one node.

    Raises:
        ConfigError: members, ports, weights or groups do not fit the meta servers; or there are several and no
            data_dir.
        ElectionError: the context names no transport, no members, or no place among them for this node.
    """
    from slotreeve_election_fle.allowance import AllowanceByName
    from slotreeve_election_fle.election import FleElection
    from slotreeve_election_fle.quorum import Weighing
    from slotreeve_election_fle.taking_part import Announced, taking_part
    from slotreeve_election_fle.timing import FleTiming

    if len(context.members) > 1 and not options.data_dir and not options.ephemeral:
        raise ConfigError(
            "election.fle.data_dir: is not set, so each of the meta servers would forget its promises and the state "
            "when it is restarted; set a directory of its own for each, or accept the loss with "
            "election.fle.ephemeral = true on all"
        )
    context = taking_part(context, options.members, options.port_shift)
    timing = FleTiming(options.ping_interval_ms / 1000, options.lease_ms / 1000)
    weighing = Weighing(options.weights, options.groups)
    recovers = options.recover_lost_votes or (options.ephemeral and not options.data_dir)
    data_dir = options.data_dir.replace("{node}", context.node)
    allowance = AllowanceByName(recovers, options.begins_without)
    every = options.snapshot_every_writes
    announced = Announced(options.moved, options.port_shift)
    return FleElection(context, data_dir, timing, every, weighing, allowance, announced)


@hookimpl
def slotreeve_elections() -> Sequence[Offer]:
    """The fle election."""
    return [Offer("fle", build, "ZooKeeper-style quorum among the meta servers; needs no other service", FleOptions)]
