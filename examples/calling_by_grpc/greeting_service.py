"""A service of gRPC and who calls it by its name, without generated code: names are bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import grpc.aio

SERVICE = "com.example.Greeter"
HELLO, COUNT = f"/{SERVICE}/Hello", f"/{SERVICE}/Count"


async def start_server(name: str) -> tuple[grpc.aio.Server, int]:
    """A server that says its name, and its port."""

    async def hello(request: bytes, context: object) -> bytes:
        return b"hello " + request + b" from " + name.encode()

    async def count(request: bytes, context: object) -> AsyncIterator[bytes]:
        for number in range(int(request)):
            yield str(number).encode()

    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Hello": grpc.unary_unary_rpc_method_handler(hello),
        "Count": grpc.unary_stream_rpc_method_handler(count),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port


class GreeterStub:
    """What the compiler of protocol buffers makes of a service: it takes a channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._hello: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HELLO)
        self._count: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(COUNT)

    async def hello(self, name: str) -> str:
        """Raises grpc.aio.AioRpcError."""
        return (await self._hello(name.encode(), timeout=5)).decode()

    async def count(self, to: int) -> list[int]:
        """Raises grpc.aio.AioRpcError."""
        return [int(number) async for number in self._count(str(to).encode(), timeout=5)]
