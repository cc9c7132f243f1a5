"""Show what a change does to the programs of the library and their gradients.

    python -m tests.gate [NAME ...]      compare what is made now with what is stored
    python -m tests.gate --update        store what is made now
    python -m tests.gate --since REV     compare with what the commit REV makes, all of it in full

`tests/golden/gate/NAME.txt` holds the derivation, the plan and the tile programs of NAME at three
sizes, and digests of its sources for an H100, in Gluon too if it has such a form. A line that
stands at some sizes only begins with their letters: s (short), l (long), d (decoding). Long lines
end in a digest of the whole.
`papers.txt` lists the rules that fire for the variants in `tests.variants.papers`, `writings.txt`
those for the writings in `tests.derivation.test_convergence`, and `rules.txt` counts the programs
for which each rule fires.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import hashlib
import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile
from pathlib import Path

import monocomp as mc
from monocomp import derivation, gradients, library, planning
from monocomp.derivation.rule_sets import RULES, derive
from monocomp.errors import UnsupportedError
from monocomp.gradients.gradient import GradientPrograms
from monocomp.kernel import Kernel
from monocomp.language.checker import check
from monocomp.rewriting.driver import Step
from monocomp.rewriting.rules import STATED
from monocomp.stages import Stages
from monocomp.translation.translator import translate
from tests.backends.library_cases import CASES
from tests.derivation.test_convergence import WRITINGS
from tests.variants.papers import VARIANTS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "golden" / "gate"
GRADIENT = ".gradient"
PROGRAMS = [name + suffix for name in library.names() for suffix in ("", GRADIENT)]
PAPERS, WRITINGS_OF, RULE_COUNTS = "papers", "writings", "rules"
LISTS = (PAPERS, WRITINGS_OF)  # texts of one line a program, with the rules that fire
SIZES = {  # q, k, d = e, b
    "short": (256, 256, 64, 4),
    "long": (4096, 4096, 128, 2),
    "decoding": (1, 16384, 128, 8),
}
TARGET, DTYPE = "cuda:90", "bf16"
MARGIN = len(SIZES) + 1
TITLE = "== "
DERIVATION, SOURCE = "derivation", "source"
LONGEST = 120  # line


# --- texts ----------------------------------------------------------------------------------


def digest(text: str, digits: int = 16) -> str:
    """Return a short digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def shorten(line: str) -> str:
    """Return a line with a digest in place of what makes it long."""
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}... {digest(line, 8)}"


def without_comments(tile: str) -> str:
    """Return tile programs without the terms that they compute, which are those of the plan."""
    return "\n".join(line for line in tile.splitlines() if not line.lstrip().startswith("#"))


def without_header(source: str) -> str:
    """Return a source without the comments above it, which repeat program and derivation."""
    return "\n".join(dropwhile(lambda line: line.startswith("#"), source.splitlines()))


def program_text(name: str, in_full: bool = False, sources: bool = True) -> str:
    """Return the text of a program, or of a gradient, without digests if it is wanted in full."""
    program = name.removesuffix(GRADIENT)
    kernel, gradient = compile_program(library.load(program), name)
    stages = {}
    for size, (q, k, d, b) in SIZES.items():
        extents = CASES[program].sizes(q, k, d=d, e=d, b=b)
        stages[size] = kernel.stages.at(target=TARGET, **extents)

    def merged(text: Callable[[Stages], str]) -> str:
        return merge({size[0]: text(at) for size, at in stages.items()})

    sections = {}
    if gradient is not None:
        sections["differentiation"] = merge({"": steps_text(gradient.derivation.steps)})
    sections[DERIVATION] = merged(lambda at: steps_text(at.plan.derivation.steps))
    sections["plan"] = merged(lambda at: at["plan"])
    sections["tile"] = merged(lambda at: without_comments(at["tile"]))
    if sources:
        shown = str if in_full else digest
        sections[SOURCE] = merged(lambda at: shown(without_header(at["source"])))
        if name == program and (found := gluon_source(program, stages["long"].extents)):
            sections["Gluon"] = merge({"": shown(without_header(found))})
    text = "\n".join(f"{TITLE}{title}\n{body}" for title, body in sections.items())
    return text if in_full else "".join(f"{shorten(line)}\n" for line in text.splitlines())


def gluon_source(name: str, extents: Mapping[str, int]) -> str | None:
    """Return the source of a program in Gluon; None if its kernels have no such form."""
    try:
        return mc.compile(library.load(name), name=name, backend="gluon").source(extents=extents)
    except UnsupportedError:
        return None


def compile_program(text: str, name: str) -> tuple[Kernel, GradientPrograms | None]:
    """Return the kernel of a program, or the one of its gradient and the gradient."""
    program = name.removesuffix(GRADIENT)
    if name == program:
        return mc.compile(text, name=program), None
    gradient = mc.grad(text, name=program)
    return Kernel(gradient.equations), gradient


def steps_text(steps: Iterable[Step]) -> str:
    """Return steps as lines: the rule and where it fires, and what it makes of a term."""
    lines = []
    for step in steps:
        lines.append(", in ".join(filter(None, (step.rule, ", ".join(step.place)))))
        lines += [f"  {line}" for line in step.after.splitlines()]
    return "\n".join(lines)


def merge(texts: Mapping[str, str]) -> str:
    """Return texts by letter as one, with the letters of each line in its margin; common lines
    have none."""
    merged: list[tuple[str, str]] = []
    for letter, text in texts.items():
        lines = text.splitlines()
        matcher = difflib.SequenceMatcher(None, [line for _, line in merged], lines, False)
        result = []
        for tag, start, end, new_start, new_end in matcher.get_opcodes():
            if tag == "equal":
                result += [(letters + letter, line) for letters, line in merged[start:end]]
            else:
                result += merged[start:end]
                result += [(letter, line) for line in lines[new_start:new_end]]
        merged = result
    every = "".join(texts)
    return "".join(
        f"{'' if letters == every else letters:{MARGIN}}{line}".rstrip() + "\n"
        for letters, line in merged
    )


def rules_of(text: str) -> set[str]:
    """Return the names of the rules that fire in a text of a program."""
    rules, is_derivation = set(), False
    for line in text.splitlines():
        if line.startswith(TITLE):
            is_derivation = line.removeprefix(TITLE) in ("differentiation", DERIVATION)
        elif is_derivation and line[MARGIN : MARGIN + 1].strip():
            rules.add(line[MARGIN:].split(",")[0])
    return rules


def paper_line(name: str) -> str:
    """Return a line with the rules that fire for a variant, or for its gradient."""
    kernel, gradient = compile_program(VARIANTS[name.removesuffix(GRADIENT)].text, name)
    steps = [*(gradient.derivation.steps if gradient else ()), *kernel.plan().derivation.steps]
    return f"{name}: {', '.join(sorted({step.rule for step in steps}))}\n"


def papers_text() -> str:
    """Return the lines of all variants and their gradients."""
    return "".join(paper_line(name + suffix) for name in VARIANTS for suffix in ("", GRADIENT))


def writings_text() -> str:
    """Return lines with the rules that fire for each writing of the programs that converge."""
    lines = []
    for program, writings in WRITINGS.items():
        for name, text in writings.items():
            rules = {step.rule for step in derive(translate(check(text))).steps}
            lines.append(f"{program}, {name}: {', '.join(sorted(rules))}\n".replace("mask: ", ""))
    return "".join(lines)


def every_rule() -> list[str]:
    """Return the names of all rules."""
    for package in (derivation, gradients, planning):  # a rule is known once its module is loaded
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    rules = {**RULES, **STATED}
    return sorted(n for n, r in rules.items() if r.apply.__module__.startswith("monocomp."))


def count_rules(texts: Mapping[str, str], rules: Iterable[str]) -> str:
    """Return the table of how many programs, gradients and variants each rule fires for."""
    counts = {name: Counter[str]() for name in ("library", "gradients", *LISTS)}
    for name, text in texts.items():
        if name in LISTS:
            for line in text.splitlines():
                counts[name].update(filter(None, line.split(": ")[1].split(", ")))
        elif name != RULE_COUNTS:
            counts["gradients" if name.endswith(GRADIENT) else "library"].update(rules_of(text))
    rules = sorted({*rules}.union(*counts.values()))
    width = max(map(len, rules))
    lines = [f"{'rule':{width}}" + "".join(f"  {column:>9}" for column in counts)]
    for rule in rules:
        lines.append(f"{rule:{width}}" + "".join(f"  {c[rule]:9}" for c in counts.values()))
    never = [rule for rule in rules if not any(c[rule] for c in counts.values())]
    return "\n".join([*lines, "", f"never in a derivation: {', '.join(never) or 'none'}"]) + "\n"


# --- comparing ------------------------------------------------------------------------------


def make(names: Iterable[str], in_full: bool, sources: bool) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each program, and of the lists."""
    lists = {PAPERS: papers_text, WRITINGS_OF: writings_text}
    for name in names:
        yield name, lists[name]() if name in LISTS else program_text(name, in_full, sources)


def read(folder: Path) -> dict[str, str]:
    """Return the texts in a folder by name."""
    return {path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.txt"))}


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Make a folder hold these texts and no others."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.txt"):
        if path.stem not in texts:
            path.unlink()
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8", newline="\n")


def without_source(text: str) -> str:
    """Return a text of a program without its last section."""
    return text.partition(f"\n{TITLE}{SOURCE}\n")[0]


def complete(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of programs and papers with the counts of their rules."""
    known = {name: text for name, text in texts.items() if name in (*PROGRAMS, *LISTS)}
    return known | {RULE_COUNTS: count_rules(known, every_rule())}


def texts_of_revision(revision: str, patterns: Sequence[str], sources: bool) -> dict[str, str]:
    """Return what a commit makes, by this module in a copy of its tree."""
    with tempfile.TemporaryDirectory() as folder:
        tree, result = Path(folder, "tree"), Path(folder, "texts")
        tree.mkdir()
        archive = subprocess.run(
            ["git", "archive", revision], cwd=ROOT, check=True, stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True)
        shutil.copy(__file__, tree / "tests" / "gate.py")
        command = [sys.executable, "-m", "tests.gate", *patterns, "--write", str(result)]
        command += [] if sources else ["--no-sources"]
        subprocess.run(command, cwd=tree, check=True, env={**os.environ, "PYTHONPATH": str(tree)})
        return read(result)


def diff(name: str, before: str, after: str) -> str:
    """Return a unified diff, empty if nothing changed."""
    lines = before.splitlines(True), after.splitlines(True)
    return "".join(difflib.unified_diff(*lines, f"before/{name}.txt", f"after/{name}.txt"))


def selected(patterns: Sequence[str]) -> list[str]:
    """Return the programs whose names match a pattern, and the papers; all if there is none."""
    names = [*PROGRAMS, *LISTS]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise SystemExit(f"error: no program matches {pattern!r}; {', '.join(library.names())}")
    return [n for n in names if not patterns or any(fnmatch.fnmatch(n, p) for p in patterns)]


def parse_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.gate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="causal, causal.gradient, 'c*', papers; all")
    add("--no-sources", action="store_true", help="do not emit sources: most of the time")
    action = parser.add_mutually_exclusive_group()
    add = action.add_argument
    add("--update", action="store_true", help="store what is made now")
    add("--since", metavar="REV", help="compare with what this commit makes, all in full")
    add("--write", metavar="FOLDER", type=Path, help="write what is made now, in full")
    options = parser.parse_args(words)
    if options.update and options.no_sources:
        parser.error("--update stores digests of sources: leave out --no-sources")
    return options


def main(words: Sequence[str] | None = None) -> int:
    """Print what changed; 1 if anything did."""
    options = parse_arguments(words)
    names, sources = selected(options.names), not options.no_sources
    in_full = bool(options.since or options.write)
    if options.write:
        write(options.write, complete(dict(make(names, in_full, sources))))
        return 0
    if options.since:
        before = texts_of_revision(options.since, options.names, sources)
    else:
        before = read(FOLDER)
        before = before if sources else {n: without_source(t) for n, t in before.items()}
    after = dict(before)
    changed = set()

    def compare(name: str) -> None:
        lines = diff(name, before.get(name, ""), after.get(name, ""))
        if lines:
            changed.add(name)
            if not options.update:
                print(lines, end="", flush=True)

    for name, text in make(names, in_full, sources):
        after[name] = text
        compare(name)
    after = complete(after)
    for name in sorted({*before, *after} - {*names}):
        compare(name)
    if options.update:  # and keep what others have stored meanwhile
        write(FOLDER, complete(read(FOLDER) | {name: after[name] for name in names}))
    print(f"{len(changed)} of {len(after)} texts changed: {', '.join(sorted(changed)) or 'none'}")
    return 1 if changed and not options.update else 0


if __name__ == "__main__":
    sys.exit(main())
