"""Units of systemd: a template for each role, as ``deploy/systemd`` and ``slotreeve config init`` have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

PROGRAM = "/opt/slotreeve/bin/slotreeve"
"""Where the units expect the command."""
TARGET = PurePath("/etc/slotreeve")
"""Where the units expect the files of a machine."""
STOP_SECONDS: Mapping[str, int] = {"meta": 30, "data": 120, "session": 300, "gateway": 30}
"""How long an orderly end may take: a data server hands over its slots, a session server its clients."""


def unit_name(role: str) -> str:
    """The file name of the template unit of a role."""
    return f"slotreeve-{role}@.service"


def unit(role: str, program: str = PROGRAM, target: PurePath = TARGET) -> str:
    """The template unit of a role; the instance is the name of the server.

    ``program`` is where the command ``slotreeve`` is, ``target`` where the files of ``slotreeve config init`` are.
    """
    return f"""# systemctl enable --now slotreeve-{role}@{role}-1
[Unit]
Description=slotreeve {role} server %i
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
User=slotreeve
Group=slotreeve
ExecStart={program} {role} run -c {target}/slotreeve.toml --name %i
# Secrets and what differs from the file: SLOTREEVE__ELECTION__POSTGRES__DSN=..., SLOTREEVE__NODE__OWN_KEY=...
EnvironmentFile=-{target}/%i.env
# SIGTERM: it hands over what it has, and leaves. SIGHUP: the same, and the others expect it back.
KillSignal=SIGTERM
RestartKillSignal=SIGHUP
KillMode=mixed
TimeoutStopSec={STOP_SECONDS[role]}
Restart=on-failure
RestartSec=2
LimitNOFILE=262144
StateDirectory=slotreeve/%i
StateDirectoryMode=0700
WorkingDirectory=%S/slotreeve/%i
UMask=0077

NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
"""
