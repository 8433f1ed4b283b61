"""The kinds of faults that strike a simulated cluster."""

from __future__ import annotations

from enum import StrEnum


class FaultKind(StrEnum):
    """The kinds of faults. Every fault but an instantaneous one ends after some seconds; then its damage is
    repaired."""

    CRASH_META = "crash_meta"
    """A meta server is killed, and started again with its disk."""
    WIPE_META = "wipe_meta"
    """A meta server is killed, and started again with an empty disk. No other one fails meanwhile."""
    FULL_DISK = "full_disk"
    """A meta server's disk refuses every write."""
    SLOW_DISK = "slow_disk"
    """Each sync of a meta server's disk takes up to half a second."""
    POWER_CUT = "power_cut"
    """The machines of all meta servers go down at once: what was not synced is lost, in part or out of order."""
    CRASH_DATA = "crash_data"
    """A data server is killed, and started again."""
    CRASH_HOST = "crash_host"
    """A data server and a session server end at the same moment, as those of one host do."""
    CRASH_ZONE = "crash_zone"
    """A data server, a session server and up to half of the clients end at the same moment, as those of one zone do."""
    LOSE_MACHINE = "lose_machine"
    """The machine of a data or session server goes down: its peers see no connection end. The server starts again."""
    CRASH_SESSION = "crash_session"
    """A session server is killed, and started again."""
    CRASH_CLIENT = "crash_client"
    """A client is killed; a new one takes its place."""
    CLOSE_CLIENT = "close_client"
    """A client is closed; a new one takes its place."""
    STOP_SERVER = "stop_server"
    """A data or session server is stopped, for good or for a restart, and is started again."""
    ADD_DATA = "add_data"
    """A data server is added; it is killed at the end."""
    ADD_SESSION = "add_session"
    """A session server is added; it is killed at the end."""
    ADD_CLIENT = "add_client"
    """Instantaneous: a client is added; it stays."""
    PAUSE = "pause"
    """A server's process is paused."""
    PAUSE_CLIENT = "pause_client"
    """A client's process is paused."""
    CUT = "cut"
    """Instantaneous: every connection between two processes breaks, and messages in flight are lost."""
    CUT_CLIENT = "cut_client"
    """Instantaneous: a client's connections break."""
    PARTITION = "partition"
    """Nothing passes between some servers and the others."""
    PARTITION_ONE_WAY = "partition_one_way"
    """Nothing passes from one server to some others; messages pass in the other direction."""
    ISOLATE_DATA = "isolate_data"
    """Nothing passes between one data server and all other processes."""
    SLOW = "slow"
    """Messages to and from one server take up to a hundred times as long."""
    CUT_LINK = "cut_link"
    """Nothing passes between two processes; everything else passes."""
    CUT_LINK_ONE_WAY = "cut_link_one_way"
    """Nothing passes from one process to another one."""
    CUT_ROLES = "cut_roles"
    """Nothing passes between all servers of two roles, or between the clients and one session server."""
    STARVE = "starve"
    """A process gets a small part of its processor: everything that it does takes up to a hundred times as long."""
    STUTTER = "stutter"
    """A process gets its processor in bursts, with pauses of up to a second between them."""
    FREEZE_SESSION = "freeze_session"
    """A session server's process is paused."""
    STOP_SESSION = "stop_session"
    """A session server is stopped, for good or for a restart, and is started again."""
    STALL = "stall"
    """A process gets no processor at all; what is sent to it arrives and waits."""
    STALL_CLIENTS = "stall_clients"
    """No client gets any processor: all of them run on one host."""
    SLOW_CLIENT = "slow_client"
    """Messages to and from one client take up to four times as long: it replays slowly, but is back in time."""
    CUT_CLIENT_LINK = "cut_client_link"
    """Nothing passes between one client and one session server."""
    CUT_OFF_CLIENT = "cut_off_client"
    """A client's connections break, and nothing passes between it and any session server, as without a network."""
    FLAP_CLIENT = "flap_client"
    """A client's connections break again and again, up to twenty times a second."""
    FLAP_LINK = "flap_link"
    """The connections between a session server and a data server break again and again, up to twenty times a second."""
    RESET_LINK = "reset_link"
    """Nothing passes between a session server and a data server for less than the grace. Then their connections break,
    and what had waited is lost."""
    CUT_ZONE = "cut_zone"
    """A data server and a session server reach each other and clients, and no other server."""
    CUT_CONTROL = "cut_control"
    """Nothing passes between the data servers and the meta servers."""
    BREAK_LINK = "break_link"
    """Instantaneous: the connections between a session server and a data server break."""
    CRASH_GATEWAY = "crash_gateway"
    """A gateway is killed; a new one takes its place."""
    SUSPEND = "suspend"
    """The machine of one to three processes is suspended: their clocks go on, their timers stand still."""
    PAUSE_GATEWAY = "pause_gateway"
    """A gateway's process is paused."""
    CUT_GATEWAY = "cut_gateway"
    """Nothing passes between one gateway and all session servers."""
    CUT_META = "cut_meta"
    """Nothing passes between one data or session server and all meta servers."""
    CUT_STREAM = "cut_stream"
    """Nothing passes from one data server to another one; what the other one sends passes."""
    SLOW_COPIES = "slow_copies"
    """Messages between two data servers take up to two seconds longer, so that copies of slots take long."""
    SLOW_WAY = "slow_way"
    """Messages from one server to another one take up to two seconds longer; answers do not."""
    CLOCK_JUMP = "clock_jump"
    """A server is killed, and started again with another wall clock."""
    STORE_DOWN = "store_down"
    """No meta server can reach the database of a lock election."""
    STORE_SILENT = "store_silent"
    """The database carries out statements, but does not answer."""
    STORE_SLOW = "store_slow"
    """Statements of the database take up to a hundred times as long."""
    STORE_RESTART = "store_restart"
    """Instantaneous: every connection to the database ends, and with it the locks that it holds."""
    STORE_CUT = "store_cut"
    """One meta server cannot reach the database."""
    COPY_META = "copy_meta"
    """A meta server is killed, and started with a copy of another one's directory, which has to be refused. Then it
    gets its own one back."""
    SET_BACK_META = "set_back_meta"
    """A meta server is killed, and started with its directory as it was earlier. It is brought up to date; if it has
    lost its disk since, the others refuse it until it gets its newest directory back."""
    SET_BACK_EPOCHS = "set_back_epochs"
    """A meta server is killed, and started with its file ``epochs`` as it was earlier, which has to be refused if it
    has logged a write of a later term since. Then it gets its directory back as it was."""
    STRANGERS_META = "strangers_meta"
    """A meta server that lost its disk comes back without meeting another one. That one loses its disk in turn, while
    the third is down: the two that are left must not lead without what was written meanwhile."""
    TOPOLOGY = "topology"
    """Nothing passes over some links between meta servers, each direction for itself: the n-th of the first group
    cannot reach the n-th of the others. Whoever reaches a majority has to be led (I23)."""


ALONE = frozenset(
    {
        FaultKind.COPY_META,
        FaultKind.SET_BACK_META,
        FaultKind.SET_BACK_EPOCHS,
        FaultKind.STRANGERS_META,
        FaultKind.TOPOLOGY,
    }
)
"""Faults of meta servers that take place while no other one lasts. Each takes several steps, and ends by itself."""
PARTITIONS = frozenset(
    {
        FaultKind.PARTITION,
        FaultKind.PARTITION_ONE_WAY,
        FaultKind.ISOLATE_DATA,
        FaultKind.CUT_LINK,
        FaultKind.CUT_LINK_ONE_WAY,
        FaultKind.CUT_ROLES,
        FaultKind.CUT_CLIENT_LINK,
        FaultKind.CUT_OFF_CLIENT,
        FaultKind.CUT_CONTROL,
        FaultKind.CUT_ZONE,
        FaultKind.RESET_LINK,
        FaultKind.CUT_GATEWAY,
        FaultKind.CUT_META,
        FaultKind.CUT_STREAM,
    }
)
"""Nothing passes between the first group and the others. Without others: between it and all."""
GATEWAY_FAULTS = frozenset({FaultKind.CRASH_GATEWAY, FaultKind.PAUSE_GATEWAY, FaultKind.CUT_GATEWAY})
STORE_FAULTS = frozenset(kind for kind in FaultKind if kind.startswith("store_"))
DISK_FAULTS = frozenset({FaultKind.SLOW_DISK, FaultKind.POWER_CUT})
"""Faults of disks, which scenarios name themselves."""
ADDED_PROCESSES = frozenset({FaultKind.ADD_SESSION, FaultKind.ADD_CLIENT})
"""What recorded incidents need beside the faults of the built-in scenarios."""
ROUGH_FAULTS = frozenset(
    {
        FaultKind.CRASH_ZONE,
        FaultKind.LOSE_MACHINE,
        FaultKind.CUT_OFF_CLIENT,
        FaultKind.FLAP_CLIENT,
        FaultKind.FLAP_LINK,
        FaultKind.CUT_CONTROL,
        FaultKind.CUT_ZONE,
        FaultKind.RESET_LINK,
    }
)
"""Faults that strike much at once, or again and again. Scenarios of their own have them."""
LATER_FAULTS = (
    DISK_FAULTS
    | ROUGH_FAULTS
    | GATEWAY_FAULTS
    | ADDED_PROCESSES
    | ALONE
    | frozenset(
        {
            FaultKind.CRASH_HOST,
            FaultKind.CUT_LINK,
            FaultKind.CUT_LINK_ONE_WAY,
            FaultKind.CUT_ROLES,
            FaultKind.STARVE,
            FaultKind.STUTTER,
            FaultKind.FREEZE_SESSION,
            FaultKind.STOP_SESSION,
            FaultKind.STALL,
            FaultKind.STALL_CLIENTS,
            FaultKind.SLOW_CLIENT,
            FaultKind.CUT_CLIENT_LINK,
            FaultKind.BREAK_LINK,
            FaultKind.CUT_META,
            FaultKind.CUT_STREAM,
            FaultKind.SLOW_COPIES,
            FaultKind.SLOW_WAY,
            FaultKind.SUSPEND,
        }
    )
)
"""Faults that scenarios name themselves, so that the seeds of the others stay what they are."""
