"""Emitted files as text: formatted, deterministic, self-contained, and nothing but kernels."""

from __future__ import annotations

import ast
import builtins
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

import monocomp as mc
from monocomp import library
from monocomp.backends.identifiers import LAUNCH
from monocomp.backends.line_breaks import WIDTH, fit
from monocomp.errors import MonocompError
from tests.backends.interpreted import run_file
from tests.backends.library_cases import CASES
from tests.backends.programs import EXAMPLES

PROGRAMS = {n: library.load(n) for n in CASES} | {n: e.text for n, e in EXAMPLES.items()}
SOME = dict(list(PROGRAMS.items())[::3])
# What emitted code may use beside what it defines itself, torch, triton and tl.
BUILTINS = {"SystemExit", "ValueError", "__name__", "abs", "any", "enumerate", "float", "len"}
BUILTINS |= {"int", "list", "max", "min", "print", "range", "sum", "tuple", "zip"}
MODULES = {"torch", "triton", "triton.language", "triton.tools.tensor_descriptor"}
MODULES_OF_MAIN = {"os", "sys"}


def emitted(text: str, name: str | None = None) -> str:
    """The file for a program."""
    return mc.compile(text, name=name).source()


@pytest.fixture(scope="module")
def kernels() -> dict[str, mc.Kernel]:
    """Some of all programs, compiled."""
    names = {n: n if n.isidentifier() else None for n in SOME}
    return {n: mc.compile(text, name=names[n]) for n, text in SOME.items()}


@pytest.fixture(scope="module")
def sources(kernels: dict[str, mc.Kernel]) -> dict[str, str]:
    """The files of all programs."""
    return {n: kernel.source() for n, kernel in kernels.items()}


# --- what is in a file --------------------------------------------------------------------


def faults(source: str, modules: Set[str] = MODULES) -> Iterator[str]:
    """What emitted code must not hold."""
    tree = ast.parse(source)
    defined = {
        a.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for a in _all(node)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Store()):
                defined.add(node.id)
            case ast.FunctionDef():
                defined.add(node.name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                defined |= {(n.asname or n.name).partition(".")[0] for n in names}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                allowed = modules | (MODULES_OF_MAIN if node.col_offset else set())
                yield from (f"import {n.name}" for n in names if n.name not in allowed)
            case ast.ImportFrom(module=module) if module not in modules:
                yield f"from {module} import"
            case ast.Attribute(attr=attr) if attr.startswith("_"):
                yield f".{attr}"
            case ast.Name(id=name) if name not in defined | BUILTINS:
                yield name
            case ast.Name(id=name) if name in defined and hasattr(builtins, name):
                yield f"{name} is rebound"
            case (
                ast.Global() | ast.Nonlocal() | ast.Lambda() | ast.Await() | ast.AsyncFunctionDef()
            ):
                yield type(node).__name__
            case ast.ClassDef() | ast.Try() | ast.With() | ast.Delete() | ast.Starred():
                yield from [type(node).__name__] if not isinstance(node, ast.Starred) else []


def _all(arguments: ast.arguments) -> list[ast.arg]:
    some = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return some + [a for a in (arguments.vararg, arguments.kwarg) if a is not None]


def test_nothing_but_kernels(sources: dict[str, str]) -> None:
    """Imports of torch and triton, known names, no private attributes."""
    found = {name: list(faults(source)) for name, source in sources.items()}
    assert not {name: some for name, some in found.items() if some}


# --- how a file looks ---------------------------------------------------------------------


def test_lines(sources: dict[str, str]) -> None:
    """No code is wider than a line, nothing stands behind it, and no line is left over."""
    for source in sources.values():
        code = source[source.index("import torch") :]
        assert all(len(line) <= WIDTH and line == line.rstrip() for line in code.splitlines())
        assert "\n\n\n\n" not in code and code.endswith("\n") and not code.endswith("\n\n")


LONG, LONGER = "a" * 36, "b" * 40
LAYOUTS = [
    "a + b",
    "(a + b)",
    "a * (b + c)",
    "(a * b) + c",
    "a - (b - c)",
    "(a & b) >> c",
    "a & b >> c",
    "(a < b) & (c == d)",
    "-(a * b)",
    "(a if b else c) + d",
    "1e+38 * f(y=2)[:, None]",
    "x**2 + (x + 1) ** 2",
    f"f({LONG}, {LONGER}) + c",
    f"c + f({LONG}, {LONGER})",
    f"c * d + f({LONG}, {LONGER})",
    f"c + d + f({LONG}, {LONGER})",
    f"{LONG} + {LONGER} * c",
    f"{LONG} + {LONGER} * {LONG}",
    f"{LONG} < {LONGER} * ({LONG} + 1)",
    f"-({LONG} * {LONGER} * c)",
    f"f({LONG} + {LONGER} + {LONG}, y=g({LONG}) * {LONGER})",
    f"f({LONG}, g({LONGER}, {LONG}, h({LONG})), {LONG})",
    f"f({LONG}, {LONGER}).to(tl.float32) * 2",
    f"{LONG} if {LONGER} == 1 else f({LONG})",
    f"({LONG} + {LONGER} >> 8).to(tl.float32) * 2.0",
    f"({LONG} + {LONGER} >> 8).to(tl.float32) * 2.0 < 0.5",
    f"({LONG} + {LONGER} + {LONG}) * 2.0",
    f"2.0 * ({LONG} + {LONGER} + {LONG})",
    f"{LONG}[:, None] * {LONGER}[None, :] + {LONG}",
    f"c + {LONG}_{LONGER}[:, None]",
    f"f({LONG}, {LONGER})[:, None] < g({LONGER})",
    f"f({LONG}, {LONGER}) + g({LONGER}) * h({LONG})",
    "k[(c,)](d)",
    f"k[(f({LONG}),)]({LONGER}, {LONG})",
]


@pytest.mark.parametrize("text", LAYOUTS)
def test_layout_keeps_the_expression(text: str) -> None:
    """No parentheses are lost that mean something, and no line is too long."""
    assert all(len(line) <= WIDTH for line in fit("x = ", text, "", 1))
    found = "\n".join(fit("x = ", text, "", 2))
    laid_out = ast.parse("if 1:\n    if 1:\n" + found).body[0].body[0].body[0]  # type: ignore[attr-defined]
    assert ast.dump(laid_out) == ast.dump(ast.parse(f"x = {text}").body[0])


# --- the same file every time -------------------------------------------------------------

_EMIT = """
import json, sys
import monocomp as mc
options, programs = json.load(sys.stdin)
sources = {}
for name, text in reversed(programs.items()):
    sources[name] = mc.compile(text, name=name if name.isidentifier() else None).source(**options)
json.dump([sources, hash("monocomp"), sorted(sys.modules)], sys.stdout)
"""


def test_deterministic_and_light(kernels: dict[str, mc.Kernel]) -> None:
    """Byte-identical under another hash seed and after other programs, and emitted without
    importing torch or triton."""
    options = {"target": "cuda:90", "dtype": "bf16"}
    some = dict(list(SOME.items())[::3])
    other_seed = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"
    result = subprocess.run(
        [sys.executable, "-c", _EMIT],
        input=json.dumps([options, some]),
        env={**os.environ, "PYTHONHASHSEED": other_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    sources, hashed, modules = json.loads(result.stdout)
    assert hashed != hash("monocomp")
    assert not {"torch", "triton"} & set(modules)
    for name in some:
        assert sources[name] == kernels[name].source(**options), name


# --- hostile text -------------------------------------------------------------------------

PLAIN = "O[i] = A[i] * 2"
INJECTIONS = [
    '# """\nimport os\n"""',
    "# ''' \"\"\" \\",
    "# \\\\ \\n \\x0a \\u000a \\N{LINE FEED}",
    "# -*- coding: utf-7 -*-\n#!/bin/sh",
    "# {0} {braces} %s %(name)s",
    "# caf\u00e9 \u4e2d\u6587 \U0001f600 \u202e\u2028\u2029\x85",
    "# \x0b\x0cimport os",
    "# \rimport os",
    "#\u2028import os",
]


@pytest.mark.parametrize("comment", INJECTIONS)
def test_comments_stay_comments(comment: str) -> None:
    """Whatever a program's comments hold, the file does what it did without them."""
    try:
        source = emitted(f"{comment}\n{PLAIN}")
    except MonocompError:
        return  # refused, which is as good
    assert source.isascii()
    assert ast.dump(ast.parse(source)) == ast.dump(ast.parse(emitted(PLAIN)))
    compile(source, "emitted", "exec")  # a coding line would be seen here
    assert not re.search(r"coding[:=]\s*utf-7", "\n".join(source.splitlines()[:2]))


@pytest.mark.parametrize(
    "name",
    ['x"\nimport os', "a b", "1", "", "os.system", "caf\u00e9", "__class__", "x" * 500, "lambda"],
)
def test_names_of_kernels(name: str) -> None:
    """A kernel's name may come from a file's name; it is an identifier or refused."""
    try:
        source = emitted(PLAIN, name)
    except MonocompError:
        return
    assert source.isascii() and not list(faults(source))


# Names of modules, of what the file holds, and of what its functions call their own.
NAMES = "sys os math torch triton class None main error reference launch CONFIG A O ratio " + (
    "made exact results names good x kernel num_warps TensorDescriptor plain_kernel"
)


@pytest.mark.parametrize("name", NAMES.split())
def test_the_self_check_of_any_kernel(name: str, tmp_path: Path) -> None:
    """Runs the kernel, whatever it is called."""
    path = tmp_path / "emitted.py"
    path.write_text(emitted("O[i] = A[i] / B[i]", name))
    assert run_file(path)[0] == 0


def test_launches_have_their_names() -> None:
    """No parameter of a kernel has a name that Triton takes for itself."""
    from dataclasses import fields

    from triton.backends.amd.compiler import HIPOptions
    from triton.backends.nvidia.compiler import CUDAOptions

    options = {f.name for kind in (CUDAOptions, HIPOptions) for f in fields(kind)}
    assert options <= LAUNCH
    lines = [f"param {name}: float" for name in sorted(LAUNCH)]
    source = emitted("\n".join(lines) + "\nO[i] = A[i] * (" + " + ".join(sorted(LAUNCH)) + ")")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            assert not LAUNCH & {a.arg for a in node.args.args}


# --- a file runs by itself ----------------------------------------------------------------


def test_self_check_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "emitted.py"
    path.write_text(mc.compile(library.load("attention")).source("triton", extents={"k": 0}))
    status, out, err = run_file(path)
    assert status == 0 and out.endswith("ok\n"), err


def test_divisors_that_may_be_0() -> None:
    """A quotient of extents is 0 for one of extents 2 and 4: what divides by it is 0 then."""
    text = library.load("gqa")
    assert "floordiv(h, size_h // size_g)" in mc.compile(text).source("triton", target="cuda:90")
    text = text.replace("(|h| // |g|)", "(|h| * |g|)")
    assert "floordiv" not in mc.compile(text).source("triton", target="cuda:90")
