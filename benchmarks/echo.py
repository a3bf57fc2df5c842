"""The least that an HTTP server in Python can do: a bare ASGI application that gives the body back.

`/short` reads the body and gives back a constant of a few bytes, which is the floor for anything that
answers a large question with a short answer.
"""

from __future__ import annotations

from typing import Final

from starlette.types import Receive, Scope, Send

SHORT: Final = b'{"Error":""}'


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """ASGI: POST anything."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    answer = SHORT if scope["path"] == "/short" else bytes(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})
