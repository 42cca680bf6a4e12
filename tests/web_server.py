"""A web server on this machine, with the faults of real ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class Page:
    """What the server answers at an address.

    Args:
        body: of the whole file.
        status: other than 200: the body is that of an error.
        ranges: whether the server can answer with a part of the file.
        version: its ETag.
        cuts: the Nth answer breaks off after the Nth of these numbers of bytes; those after the
            last are whole.
        length: whether the server says how long the file is.
        lies: says this Content-Range instead of the right one.
        type: its Content-Type; "": the server says none.
    """

    body: bytes
    status: int = 200
    ranges: bool = True
    version: str = '"1"'
    cuts: list[int] = field(default_factory=list)
    length: bool = True
    lies: str = ""
    type: str = ""


class Server:
    """Attributes: `requests` are the path and the Range header (or "") of every request."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.requests: list[tuple[str, str]] = []

    def address(self, path: str) -> str:
        return f"{self.root}/{path}"


@contextmanager
def serve(pages: Mapping[str, Page]) -> Iterator[Server]:
    """Run a server.

    Args:
        pages: by path; every other answers 404. May change while the server runs.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, wanted = self.path.lstrip("/"), self.headers.get("Range", "")
            server.requests.append((path, wanted))
            page = pages.get(path, Page(b"no such page", 404))
            body, status, start = page.body, page.status, 0
            if wanted and page.ranges and status == 200:
                start = int(wanted[len("bytes=") : -1])
                status = 206 if start < len(body) else 416
            self.send_response(status)
            self.send_header("ETag", page.version)
            if page.type:
                self.send_header("Content-Type", page.type)
            if status == 206:
                right = f"bytes {start}-{len(body) - 1}/{len(body)}"
                self.send_header("Content-Range", page.lies or right)
            body = b"" if status == 416 else body[start:]
            if page.length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: page.cuts.pop(0)] if page.cuts else body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server = Server(f"http://127.0.0.1:{http.server_port}")
        Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server
        finally:
            http.shutdown()
