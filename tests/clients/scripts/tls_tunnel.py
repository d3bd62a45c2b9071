"""TLS proxy with a temporary certificate, for clients that require HTTPS."""

from __future__ import annotations

import asyncio
import os
import queue
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HOST = "127.0.0.1"


def _certificate(folder: Path) -> Path:
    """Write a certificate for this host and its private key to a file, and return the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "certificate.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    return file


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65_536):
        writer.write(piece)
        await writer.drain()
    writer.close()


async def _serve(port: int, context: ssl.SSLContext, opened: queue.Queue[tuple[int, Callable[[], None]]]) -> None:
    """Run the TLS proxy until the stop callback is called.

    Args:
        port: Port to which the proxy forwards connections.
        context: TLS context of the proxy.
        opened: Queue that receives the proxy's port and a callback that stops the proxy.
    """
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection(HOST, port)
        await asyncio.gather(_pass_on(reader, ours), _pass_on(theirs, writer), return_exceptions=True)

    server = await asyncio.start_server(join, HOST, 0, ssl=context)
    opened.put((server.sockets[0].getsockname()[1], lambda: loop.call_soon_threadsafe(over.set)))
    await over.wait()


@contextmanager
def tls(port: int) -> Iterator[str]:
    """Serve a local HTTP port over HTTPS, and yield the HTTPS URL.

    All HTTP clients in this process trust the certificate.
    """
    with TemporaryDirectory() as folder:
        file = _certificate(Path(folder))
        os.environ["SSL_CERT_FILE"] = str(file)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file)
        opened: queue.Queue[tuple[int, Callable[[], None]]] = queue.Queue()
        serving = threading.Thread(target=lambda: asyncio.run(_serve(port, context, opened)), daemon=True)
        serving.start()
        address, end = opened.get()
        try:
            yield f"https://{HOST}:{address}"
        finally:
            end()
            serving.join()
