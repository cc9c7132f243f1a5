"""The server of `monocomp serve`: what it answers, whom it refuses, and what it gives up."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from monocomp import library
from monocomp.errors import UsageError
from monocomp.language.mistakes import MAX_BYTES
from monocomp.server import Server, compiler
from monocomp.server.answers import Answer, Request, answer
from monocomp.server.compiler import Compiler
from tests.pages import Page

PROGRAM = "O[q,e] = softmax[k if k <= q](Q[q,d] * K[k,d]) * V[k,e]"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server(0)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
    assert server.compiler is not None and not server.compiler.process.is_alive()


def ask(
    server: Server, method: str, path: str, body: str | None = None, **headers: str
) -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request(method, path, body, {n.replace("_", "-"): v for n, v in headers.items()})
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, reply.headers, text


def compiled(server: Server, **fields: object) -> dict[str, Any]:
    status, _, text = ask(
        server, "POST", "/compile", json.dumps(fields), Content_Type="application/json"
    )
    assert status == 200, text
    return dict(json.loads(text))


def test_a_program(server: Server) -> None:
    found = compiled(server, program=PROGRAM)
    assert found["error"] == "" and found["about"].endswith(" steps")
    page = Page(found["html"])
    assert {"lift", "Plan", "From terms to source"} <= set(page.texts)
    assert "tl.dot(" in page.text and "contract[k]" in page.text and "script" not in page.seen


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"gradient": True}, "dQ[q,d]=sum[kifk<=q]"),
        ({"backend": "torch"}, "contract[k]"),
        ({"backend": "gluon", "sizes": "d=128, e=128"}, "gl.constexpr"),
        ({"backend": "gluon", "target": "cuda:80"}, "Nokernel"),
        ({"sizes": "q=512 d=64"}, "forq=512,"),
    ],
)
def test_what_it_is_for(server: Server, fields: dict[str, Any], expected: str) -> None:
    found = compiled(server, program=PROGRAM, **fields)
    assert found["error"] == ""
    text = Page(found["html"]).text
    assert expected in text
    assert ("tl.program_id" in text) == (fields.get("backend", "triton") == "triton")


def test_dtypes_and_targets_reach_the_kernel() -> None:
    by_dtype = {d: answer(Request(PROGRAM, dtype=d)).html for d in ("bf16", "fp32")}
    by_target = {t: answer(Request(PROGRAM, target=t)).html for t in ("cuda:90", "hip:gfx942")}
    assert len({*by_dtype.values()}) == 2 and len({*by_target.values()}) == 2


def test_an_error_has_its_caret(server: Server) -> None:
    program = "# first\nO[q] = softmax[k](S[q,k]) * V[k,e] / sqr(2)"
    found = compiled(server, program=program)
    assert found["html"] == "" and "did you mean sqrt" in found["error"]
    assert "^^^" in found["error"] and program[found["start"] : found["stop"]] == "sqr"


@pytest.mark.parametrize("program", ["/etc/passwd", "causal", "", "O[i] = A[i", "\x00", "é = 😀"])
def test_a_program_is_text_and_no_path(server: Server, program: str) -> None:
    found = compiled(server, program=program)
    assert found["html"] == "" and "Error: " in found["error"] and "root:" not in found["error"]


def test_what_is_typed_is_escaped(server: Server) -> None:
    bad = "<script>alert(1)</script>"
    found = compiled(server, program=f"# {bad}\n{PROGRAM}  # {bad}")
    assert "<script" not in found["html"] and "alert(1)" not in found["html"]
    Page(found["html"])


def test_the_page_and_what_belongs_to_it(server: Server) -> None:
    status, headers, text = ask(server, "GET", "/?program=anything")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy
    page = Page(text.replace("<link", "<br").replace("<textarea", "<p").replace("/textarea", "/p"))
    assert page.seen.count("script") == 2 and "http" not in text
    for _, name, value in page.attributes:
        assert not name.startswith("on")
        if name in ("src", "href") and value != "data:,":
            assert ask(server, "GET", str(value))[0] == 200
    names = {value for tag, name, value in page.attributes if (tag, name) == ("option", "value")}
    assert {*library.names()} <= names


def test_the_library(server: Server) -> None:
    listed = json.loads(ask(server, "GET", "/library")[2])
    assert [entry["name"] for entry in listed] == [*library.names()]
    assert ask(server, "GET", "/library/gqa")[2] == library.load("gqa")


PATHS = """
    /library/ /library/none /library/../../errors.py /library/%2e%2e/errors.py /library/gqa/
    /gqa /serve.css /../pyproject.toml //etc/passwd /compile
"""
JSON = {"Content_Type": "application/json"}
BODY = json.dumps({"program": PROGRAM})
REFUSED: list[tuple[int, str, str, str | None, dict[str, str]]] = [
    *((404, "GET", path, None, {}) for path in PATHS.split()),
    # A name that leads here from elsewhere would let any page read what is typed.
    *(
        (403, method, path, None, {"Host": host})
        for host in ("example.com", "example.com:{}", "127.0.0.1", "127.0.0.1:1", "")
        for method, path in (("GET", "/"), ("POST", "/compile"))
    ),
    *(
        (403, "POST", "/compile", BODY, {"Origin": origin, **JSON})
        for origin in ("https://example.com", "null", "http://127.0.0.1:1")
    ),
    (415, "POST", "/compile", BODY, {"Content_Type": "text/plain"}),
    *(
        (status, "POST", "/compile", "", {**JSON, "Content_Length": length})
        for length, status in (
            *((str(8 * MAX_BYTES + 1), 413), ("9" * 40, 413)),
            *(("-1", 411), ("1e3", 411)),
        )
    ),
    *(
        (400, "POST", "/compile", body, JSON)
        for body in (
            *("", "{", "[]", "{}", "[" * 100_000, '{"program": 1}'),
            *('{"program": "", "more": 1}', '{"program": "", "gradient": "yes"}'),
            *('{"program": "", "target": "cuda:1"}', '{"program": "", "dtype": "int"}'),
            '{"program": "", "backend": "numpy"}',
        )
    ),
]


@pytest.mark.parametrize(("status", "method", "path", "body", "headers"), REFUSED)
def test_refused(
    server: Server, status: int, method: str, path: str, body: str | None, headers: dict[str, str]
) -> None:
    given = {n: v.format(server.server_port) for n, v in headers.items()}
    found, _, text = ask(server, method, path, body, **given)
    assert found == status
    assert status != 403 or "Host" not in headers or "this machine" in text
    assert status != 400 or json.loads(text)["error"]


def test_large_programs(server: Server) -> None:
    assert ask(server, "GET", "/", Host=f"localhost:{server.server_port}")[0] == 200
    found = compiled(server, program="#" + "x" * MAX_BYTES)
    assert found["error"].startswith("LimitError")


def test_a_reader_who_leaves(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        connection.sendall(b"POST /compile HTTP/1.1\r\nContent-Le")
    assert compiled(server, program=PROGRAM)["error"] == ""


# The process that compiles


def slow(request: Request) -> Answer:
    """Takes as many seconds as its program says; "end" ends the process."""
    if request.program == "end":
        sys.exit(1)
    time.sleep(float(request.program) if request.program[0].isdigit() else 0)
    return Answer(about=request.program)


def work_slowly(connection: Any) -> None:
    compiler.answer = slow
    compiler.work(connection)


@pytest.fixture
def slow_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiler]:
    monkeypatch.setattr(compiler, "work", work_slowly)
    made = Compiler(seconds=1.0, patience=0.2)
    assert made.answer(Request("0")) == Answer(about="0")
    yield made
    made.close()


def test_what_takes_too_long_is_stopped(slow_compiler: Compiler) -> None:
    first = slow_compiler.process
    found = slow_compiler.answer(Request("600"))
    assert found is not None and found.error == "Stopped: this program takes over 1 s."
    assert not first.is_alive()
    assert slow_compiler.answer(Request("0")) == Answer(about="0")


def test_a_process_that_ends(slow_compiler: Compiler) -> None:
    found = slow_compiler.answer(Request("end"))
    assert found is not None and "has ended" in found.error
    assert slow_compiler.answer(Request("0")) == Answer(about="0")


def test_the_newest_wins(slow_compiler: Compiler) -> None:
    """Those between give way, and so does the one that is under way after a while."""
    slow_compiler.seconds = 600.0
    answers: dict[str, Answer | None] = {}

    def send(program: str) -> None:
        answers[program] = slow_compiler.answer(Request(program))

    threads = []
    for number, program in enumerate(("600", "599", "598", "0.0"), 1):
        threads.append(threading.Thread(target=send, args=(program,)))
        threads[-1].start()
        while slow_compiler._newest != number + 1:  # the fixture's was the first
            time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert answers == {**dict.fromkeys(("600", "599", "598")), "0.0": Answer(about="0.0")}


# The command


def test_the_next_port_that_is_free() -> None:
    class Nothing:
        def close(self) -> None: ...

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with Server(port, Nothing()) as server:  # type: ignore[arg-type]
            assert port < server.server_port < port + 20
            assert server.address == f"http://127.0.0.1:{server.server_port}/"
        with pytest.raises(OSError, match="in use"):
            Server(port, Nothing(), tries=1)  # type: ignore[arg-type]


def test_it_ends_on_interrupt() -> None:
    words = [sys.executable, "-m", "monocomp", "serve", "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b"Ctrl-C ends it.\n"
        assert process.wait(20) == 0


def test_answers_are_data() -> None:
    assert json.loads(json.dumps(asdict(answer(Request("O[i] = A[i]")))))["error"] == ""
    with pytest.raises(UsageError, match="has no 'targt'"):
        Request.read({"program": "", "targt": "cuda:90"})
