"""Real database servers for tests, started without being installed, each in a directory and on a port of its own.

Their programs are found by :mod:`slotreeve_chaos.sql_programs`::

    with PostgresServer(directory) as server:
        connect(server.dsn())

Both run as an unprivileged user where the caller is root: PostgreSQL refuses to run as root. Both end when the process
that started them does, however it ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from slotreeve.errors import SlotreeveError
from slotreeve_harness.end_with_parent import EndWithParent
from slotreeve_harness.free_ports import free_address

from slotreeve_chaos.sql_programs import UNPRIVILEGED, MariaDbPrograms, mariadb_programs, postgres_programs

READY_SECONDS = 30.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02
USER, PASSWORD, DATABASE = "slotreeve", "open-sesame", "slotreeve"
"""The account that owns the database, and the database."""


class ServerFailed(SlotreeveError):
    """The server did not start; the message holds the end of its log."""


class SqlServer:
    """A server in ``directory`` (made if missing, or a temporary one). A context manager that starts and stops it."""

    dialect: str

    def __init__(self, directory: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        """``environment``: further variables for the server's programs."""
        self._further = dict(environment or {})
        self._is_temporary = directory is None
        self._directory = Path(tempfile.mkdtemp(prefix="slotreeve-sql-")) if directory is None else directory
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: EndWithParent | None = None
        self._tls: tuple[bytes, bytes] | None = None
        self.host, port = free_address().split(":")
        self.port = int(port)

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.port}"

    @property
    def is_running(self) -> bool:
        """True between start and stop."""
        return self._process is not None

    def dsn(
        self, user: str = USER, password: str = PASSWORD, address: str | None = None, database: str = DATABASE
    ) -> str:
        """How the election connects; ``address`` for one that goes through a proxy."""
        return f"{self.dialect}://{user}:{password}@{address or self.address}/{database}"

    def _tls_files(self) -> list[Path]:
        """The files of the certificate and of its key; none where there is no TLS."""
        names = ("certificate.pem", "key.pem") if self._tls is not None else ()
        return [self._directory / name for name in names]

    def start(self) -> None:
        """Start it and wait until it answers; the first time, make its data directory, database and account.

        Raises:
            ServerMissing: there are no programs to run.
            ServerFailed: it ended, or did not answer within half a minute.
        """
        log = self._directory / "log"
        data = self._directory / "data"
        if not data.exists():
            self._directory.mkdir(parents=True, exist_ok=True)
            _give_away(self._directory)
            self._make(data, log)
        for file, content in zip(self._tls_files(), self._tls or (), strict=True):
            file.write_bytes(content)
            file.chmod(0o600)
            _give_away(file)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command(data),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._directory,
                start_new_session=True,
                user=_user(),
                group=_group(),
                extra_groups=_no_groups(),
                env=self._environment(),
            )
        self._guard = EndWithParent(self._process.pid, self._directory if self._is_temporary else None)
        self._wait_until_ready(log)

    def stop(self) -> None:
        """An orderly end; connections are ended by the server."""
        self._end(signal.SIGINT if self.dialect == "postgres" else signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what was committed survives, connections end."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP to the process that listens; connections that exist go on only where each has its own process."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop it, and remove its directory if that was a temporary one."""
        self.stop()
        if self._is_temporary:
            shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> SqlServer:
        """Start."""
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and clean up."""
        self.close()

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        if self._guard is not None:
            self._guard.release()
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _wait_until_ready(self, log: Path) -> None:
        assert self._process is not None
        deadline = time.monotonic() + READY_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(f"{self.dialect} at {self.address} did not start:\n{_tail(log)}")
            time.sleep(POLL_SECONDS)

    def _run(self, command: Sequence[str], log: Path, text: bytes = b"") -> None:
        """Run one of the server's own programs to its end."""
        with log.open("ab") as output:
            done = subprocess.run(
                command,
                input=text,
                stdout=output,
                stderr=output,
                check=False,
                cwd=self._directory,
                user=_user(),
                group=_group(),
                extra_groups=_no_groups(),
                env=self._environment(),
                timeout=READY_SECONDS,
            )
        if done.returncode != 0:
            raise ServerFailed(f"{command[0]} ended with exit code {done.returncode}:\n{_tail(log)}")

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self._directory), **self._further}

    def _make(self, data: Path, log: Path) -> None:
        raise NotImplementedError

    def _command(self, data: Path) -> list[str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        """True if the server greets a new connection as its protocol demands."""
        raise NotImplementedError


class PostgresServer(SqlServer):
    """PostgreSQL; every account but the given one needs a password too."""

    dialect = "postgres"

    def _make(self, data: Path, log: Path) -> None:
        programs = postgres_programs()
        secret = self._directory / "password"
        secret.write_text(PASSWORD)
        _give_away(secret)
        self._run(
            [
                str(programs / "initdb"),
                "-D",
                str(data),
                "-U",
                USER,
                "--auth=scram-sha-256",
                f"--pwfile={secret}",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ],
            log,
        )
        # A single-user session needs no socket and no password.
        self._run(
            [str(programs / "postgres"), "--single", "-D", str(data), "postgres"],
            log,
            f"CREATE DATABASE {DATABASE};\n".encode(),
        )

    def _command(self, data: Path) -> list[str]:
        settings = {"listen_addresses": self.host, "port": self.port, "unix_socket_directories": "", "fsync": "off"}
        flags = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return [str(postgres_programs() / "postgres"), "-D", str(data), *flags]

    def _answers(self) -> bool:
        # A start-up packet: a server that is ready begins to authenticate (R). One that is starting up refuses (E).
        packet = bytes([0, 3, 0, 0]) + f"user\0{USER}\0database\0{DATABASE}\0\0".encode()
        return _ask(self.host, self.port, (4 + len(packet)).to_bytes(4) + packet).startswith(b"R")


class MariaDbServer(SqlServer):
    """MariaDB; the tables of rights are made by its own bootstrap, without a script."""

    dialect = "mysql"

    def use_tls(self, certificate: bytes, key: bytes) -> None:
        """Offer TLS with this certificate and key (PEM), from the next start on."""
        self._tls = certificate, key

    def _make(self, data: Path, log: Path) -> None:
        programs = mariadb_programs()
        data.mkdir()
        _give_away(data)
        share = programs.base / "share/mysql"
        text = ["CREATE DATABASE mysql;", "USE mysql;", "SET @auth_root_socket=NULL;"]
        scripts = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
        text += [(share / name).read_text(encoding="utf-8") for name in scripts]
        text += [
            f"CREATE DATABASE {DATABASE};",
            "FLUSH PRIVILEGES;",
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';",
            f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;",
        ]
        command = [*self._base_command(programs, data), "--bootstrap"]
        self._run(command, log, "\n".join(text).encode())

    def _command(self, data: Path) -> list[str]:
        return [
            *self._base_command(mariadb_programs(), data),
            f"--bind-address={self.host}",
            f"--port={self.port}",
            f"--socket={self._directory / 'socket'}",
            f"--pid-file={self._directory / 'pid'}",
            "--skip-name-resolve",
            *(f"--ssl-{what}={file}" for what, file in zip(("cert", "key"), self._tls_files(), strict=False)),
        ]

    def _base_command(self, programs: MariaDbPrograms, data: Path) -> list[str]:
        return [
            str(programs.server),
            "--no-defaults",
            f"--basedir={programs.base}",
            f"--datadir={data}",
            f"--lc-messages-dir={programs.base / 'share/mysql'}",
            f"--tmpdir={self._directory}",
            "--innodb-buffer-pool-size=16M",
            "--innodb-log-file-size=8M",
            "--innodb-flush-log-at-trx-commit=2",
        ]

    def _environment(self) -> dict[str, str]:
        libraries = [str(folder) for folder in mariadb_programs().libraries]
        return {**super()._environment(), "LD_LIBRARY_PATH": ":".join(libraries)}

    def _answers(self) -> bool:
        return b"Maria" in _ask(self.host, self.port, b"")


def _user() -> str | None:
    return UNPRIVILEGED if os.getuid() == 0 else None


def _group() -> str | None:
    return "nogroup" if os.getuid() == 0 else None


def _no_groups() -> list[str] | None:
    return [] if os.getuid() == 0 else None


def _give_away(path: Path) -> None:
    if os.getuid() == 0:
        shutil.chown(path, UNPRIVILEGED)


def _ask(host: str, port: int, packet: bytes) -> bytes:
    try:
        with socket.create_connection((host, port), timeout=1.0) as connection:
            connection.settimeout(1.0)
            connection.sendall(packet)
            return connection.recv(4096)
    except OSError:
        return b""  # not up yet


def _tail(log: Path, lines: int = 20) -> str:
    text = log.read_text(errors="replace") if log.exists() else ""
    return "\n".join(text.splitlines()[-lines:])
