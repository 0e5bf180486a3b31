"""A small MCP server of the older revisions on standard input and output, which does one odd thing: its argument."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

OUT = sys.stdout.buffer


def write(data: bytes) -> None:
    OUT.write(data)
    OUT.flush()


def send(**message: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def forever(data: bytes) -> None:
    while True:
        write(data)


def endless_line(request: dict[str, Any]) -> None:
    write(b'{"jsonrpc": "2.0", "result": {"text": "')
    forever(b"a" * 65_536)


def babbles(request: dict[str, Any]) -> None:
    forever(b"\x1b[31mloading\xff...\n")


def babbles_in_long_lines(request: dict[str, Any]) -> None:
    forever(b"z" * 100_000 + b"\n")


def chatters(request: dict[str, Any]) -> None:
    write(b"Welcome!\n\n\r\n{}\n[]\nnull\n\xff\xfe\x00\n" + b'{"jsonrpc": "2.0"}\n"\\ud800"\n')
    write(b"[" * 100_000 + b"\n" + b'{"a":' * 100_000 + b"\n")
    write(b'{"jsonrpc": "2.0", "id": ' + b"9" * 100_000 + b', "result": {}}\n')
    write(b'{"jsonrpc": "2.0", "id": 77, "result": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}\n")
    send(id=request["id"], result={"text": "at last"})


def huge_numbers(request: dict[str, Any]) -> None:
    write(b'{"jsonrpc": "2.0", "id": %d, "result": {"number": %s}}\n' % (request["id"], b"9" * 900_000))
    send(id=request["id"], result={"text": "at last"})


def noisy(request: dict[str, Any]) -> None:
    for _ in range(320):
        os.write(2, b"0123456789abcdef" * 4096)
    os.write(2, b"\nthe \x1b[2Jlast line\n")
    send(id=request["id"], result={"text": "heard"})


def exits(request: dict[str, Any]) -> None:
    os.write(2, b"no licence \x1b[2Jfound\n\n")
    os._exit(3)


def dies(request: dict[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def closes_output(request: dict[str, Any]) -> None:
    os.close(1)
    signal.pause()


def asks(request: dict[str, Any]) -> None:
    number = 0
    while True:
        number += 1
        send(id=number, method="ping")


def repeats_a_question(request: dict[str, Any]) -> None:
    """Far more often than there is room for answers that nobody reads."""
    for _ in range(10_000):
        send(id="same", method="ping")
    send(id=request["id"], result={"text": "done"})
    signal.pause()


def takes_back_questions(request: dict[str, Any]) -> None:
    for number in range(500):
        send(id=number, method="sampling/createMessage", params={"messages": [], "maxTokens": 1})
        send(method="notifications/cancelled", params={"requestId": number})
    send(id=request["id"], result={"text": "done"})


def asks_and_listens(request: dict[str, Any]) -> None:
    for number in range(500):
        send(id=number, method="ping")
        sys.stdin.readline()
    send(id=request["id"], result={"text": "done"})


def long_answer(request: dict[str, Any]) -> None:
    write(b'{"jsonrpc": "2.0", "id": %d, "result": {"text": "' % request["id"])
    for _ in range(1024):
        write(b"a" * 65_536)
    write(b'"}}\n')


def tells_environment(request: dict[str, Any]) -> None:
    group = {"pid": os.getpid(), "group": os.getpgid(0), "session": os.getsid(0)}
    send(id=request["id"], result={"environment": dict(os.environ), "cwd": os.getcwd(), **group})


def never_answers(request: dict[str, Any]) -> None:
    pass


def stubborn(request: dict[str, Any]) -> None:
    """Ignore everything but SIGKILL, with a child that does the same; then go on when standard input is closed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "1000"])  # an ignored signal stays ignored
    send(id=request["id"], result={"pids": [os.getpid(), child.pid]})
    while True:
        signal.pause()


def leaves_a_child(request: dict[str, Any]) -> None:
    """A child that holds the pipes and outlives its parent, which ends in good order."""
    child = subprocess.Popen(["sleep", "1000"])
    send(id=request["id"], result={"pids": [os.getpid(), child.pid]})


def main() -> None:
    do: Callable[[dict[str, Any]], None] = globals()[sys.argv[1]]
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("method") == "server/discover":
            send(id=request["id"], error={"code": -32601, "message": "Method not found"})
        elif request.get("method") == "initialize":
            version = request["params"]["protocolVersion"]
            info = {"name": "odd", "version": "1"}
            send(id=request["id"], result={"protocolVersion": version, "capabilities": {}, "serverInfo": info})
        elif "id" in request and "method" in request:
            do(request)


main()
