"""The certificate of a listener, read again when its files change."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

from slotreeve.errors import ConfigError
from slotreeve.key_files import stamp_of

log = logging.getLogger("slotreeve.http")

Signature = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True)
class TlsFiles:
    """Where the certificate is, in PEM.

    Attributes:
        certificate: with the chain that leads to its issuer.
        key: its private key, without a passphrase.
        client_ca: whose certificates callers must show; None: they show none.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    @property
    def all(self) -> tuple[Path, ...]:
        """Every file."""
        return (self.certificate, self.key, *([self.client_ca] if self.client_ca is not None else []))


class Certificates:
    """The newest certificate that could be read. Each change makes a new context, so that connections that are open
    keep theirs.

    Attributes:
        context: for new connections. TLS 1.2 at least.
        failures: how often a change could not be read, such as a file that is half written.

    Raises:
        ConfigError: the files cannot be used; the message says why.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = self._signature()
        self._problem: tuple[Signature, str] | None = None
        self.failures = 0
        try:
            self.context = _context(files)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{_names(files)}: no TLS with these files: {error}") from None

    def look_again(self) -> None:
        """Read the files again if one has changed. Where that fails, the certificate before it stays in use, and they
        are read at each look until it succeeds."""
        seen = self._signature()  # before the files are read: what changes meanwhile is read the next time
        if seen == self._seen:
            return
        try:
            self.context = _context(self._files)
        except (OSError, ValueError) as error:
            problem = seen, str(error)
            if problem != self._problem:
                self._problem = problem
                self.failures += 1
                names = _names(self._files)
                log.error("%s cannot be read again: %s; the certificate before stays in use", names, error)
        else:
            self._seen, self._problem = seen, None
            log.info("%s: read again", _names(self._files))

    def _signature(self) -> Signature:
        return tuple(map(stamp_of, self._files.all))


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(files.certificate, files.key, password=_no_passphrase)
    if files.client_ca is not None:
        context.load_verify_locations(files.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _no_passphrase() -> str:
    """OpenSSL would ask on the terminal, and wait."""
    raise ValueError("the key has a passphrase; expected one without")


def _names(files: TlsFiles) -> str:
    return ", ".join(map(str, files.all))
