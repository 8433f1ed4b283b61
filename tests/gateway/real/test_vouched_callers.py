"""A gateway process whose callers others vouch for: a certificate authority, and an OpenID provider on real sockets."""

from __future__ import annotations

import datetime
import json
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import jwt
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from slotreeve.model.nodes import Role
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import DevServer, ServerProcess

pytestmark = pytest.mark.processes
PATIENCE = 30.0


class Provider:
    """An OpenID provider: its discovery document, and its keys, which change."""

    def __init__(self) -> None:
        provider = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if provider.is_elsewhere:
                    self.send_response(302)
                    self.send_header("Location", f"{provider.issuer}/elsewhere{self.path}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                body = json.dumps(provider.document(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.is_elsewhere = False
        self.change_key("first")
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def change_key(self, kid: str) -> None:
        self.kid, self.key = kid, rsa.generate_private_key(65537, 2048)

    def document(self, path: str) -> object:
        if path.startswith("/.well-known"):
            return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**key, "kid": self.kid, "alg": "RS256", "use": "sig"}]}

    def token(self, *groups: str, seconds: float = 600) -> str:
        body = {"iss": self.issuer, "aud": "slotreeve", "sub": "u-17", "groups": groups, "exp": time.time() + seconds}
        return jwt.encode(body, self.key, "RS256", headers={"kid": self.kid})


class Authority:
    """Issues certificates with a SPIFFE id, as an agent on the machine of a workload does."""

    def __init__(self, directory: Path) -> None:
        self.directory, self._key = directory, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "workloads")])
        self.file = directory / "workloads.pem"
        is_authority = x509.BasicConstraints(ca=True, path_length=0)
        made = self._made(self._name, self._key.public_key()).add_extension(is_authority, critical=True)
        self.file.write_bytes(made.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def _made(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )

    def issue(self, name: str, uri: str) -> tuple[str, str]:
        """Files of a certificate and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)])
        use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        made = self._made(x509.Name([]), key.public_key()).add_extension(names, critical=True)
        certificate = made.add_extension(use, critical=False).sign(self._key, SHA256())
        paths = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(Encoding.PEM))
        paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return str(paths[0]), str(paths[1])


class Gateway:
    def __init__(self, directory: Path, session: str, settings: str) -> None:
        self.ca = trustme.CA()
        issued = self.ca.issue_cert("127.0.0.1")
        (directory / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        (directory / "key.pem").write_bytes(issued.private_key_pem.bytes())
        address = free_address()
        self.url = f"https://{address}"
        file = directory / "gateway.toml"
        file.write_text(
            f"""
[gateway]
listen = "{address}"
sessions = ["{session}"]
authentication = "tokens"
tls_certificate = "{directory / "cert.pem"}"
tls_key = "{directory / "key.pem"}"
{settings}
""",
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "slotreeve_cli", "gateway", "run", "--until-eof", "-c", str(file)]
        self.process = ServerProcess(Role.GATEWAY, "gateway", address, command, directory / "gateway.log")

    def caller(self, certificate: tuple[str, str] | None = None) -> httpx.Client:
        trusting = ssl.create_default_context()
        self.ca.configure_trust(trusting)
        if certificate is not None:
            trusting.load_cert_chain(*certificate)
        return httpx.Client(verify=trusting, timeout=PATIENCE, base_url=self.url)

    @contextmanager
    def running(self) -> Iterator[None]:
        self.process.start()
        try:
            yield
        finally:
            self.process.stop()

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if condition():
                    return
            except httpx.TransportError:
                pass  # it does not listen yet
            time.sleep(0.05)
        raise AssertionError(f"{condition()}: {self.process.tail()}")


def register(http: httpx.Client, service: str, token: str = "") -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body = {"address": "10.0.0.1", "port": 80, "ttl_seconds": 60}
    return http.put(f"/v1/services/{service}/instances/one", json=body, headers=headers).status_code


def test_a_token_of_an_openid_provider_counts_until_its_key_or_it_ends(dev: DevServer, tmp_path: Path) -> None:
    provider = Provider()
    gateway = Gateway(
        tmp_path,
        dev.session_address,
        f"""
oidc_issuer = "{provider.issuer}"
oidc_audience = "slotreeve"
grants = {{ "group:shop" = ["register:com.example.Shop", "read:*"] }}
""",
    )
    try:
        with gateway.running(), gateway.caller() as http:
            token = provider.token("shop", "others")
            gateway.until(lambda: register(http, "com.example.Shop", token) != 503)
            assert register(http, "com.example.Shop", token) == 200
            assert register(http, "com.example.Till", token) == 403
            assert register(http, "com.example.Shop", provider.token("others")) == 403
            assert register(http, "com.example.Shop", provider.token("shop", seconds=-60)) == 401
            provider.is_elsewhere = True  # a redirect leads to no keys
            provider.change_key("third")
            assert register(http, "com.example.Shop", provider.token("shop")) == 401
            gateway.until(lambda: "cannot be read" in gateway.process.tail())
            assert register(http, "com.example.Shop", token) == 200
            provider.is_elsewhere = False
            provider.change_key("second")
            gateway.until(lambda: register(http, "com.example.Shop", provider.token("shop")) == 200)
            assert register(http, "com.example.Shop", token) == 401
            assert token.rpartition(".")[2] not in (tmp_path / "gateway.log").read_text()
    finally:
        provider.server.shutdown()
        provider.server.server_close()


def test_a_certificate_with_a_spiffe_id_gives_its_rights_and_one_of_nobody_none(dev: DevServer, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    gateway = Gateway(
        tmp_path,
        dev.session_address,
        f"""
tls_client_ca = "{authority.file}"
grants = {{ "spiffe://example.com/ns/shop/*" = ["register:com.example.Shop2"] }}
""",
    )
    shop = authority.issue("shop", "spiffe://example.com/ns/shop/pod-7")
    till = authority.issue("till", "spiffe://example.com/ns/till")
    with gateway.running(), gateway.caller(shop) as as_shop, gateway.caller(till) as as_till, gateway.caller() as bare:
        gateway.until(lambda: register(as_shop, "com.example.Shop2") != 503)
        assert register(as_shop, "com.example.Shop2") == 200
        assert register(as_shop, "com.example.Till") == 403
        assert register(as_till, "com.example.Shop2") == 401
        with pytest.raises(httpx.TransportError):
            register(bare, "com.example.Shop2")
        of_a_page = as_shop.put(
            "/v1/services/com.example.Shop2/instances/two",
            json={"address": "10.0.0.1", "port": 80, "ttl_seconds": 60},
            headers={"Origin": "https://evil.example.com"},
        )
        assert of_a_page.status_code == 403
        assert as_shop.get("/v1/services/com.example.Shop2/instances").status_code == 403
