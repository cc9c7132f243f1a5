"""`monocomp list` and `monocomp show`: the programs of the library, and one program's text."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from monocomp import library
from monocomp.command_line import compiling, streams
from monocomp.declarations.record import as_data


def list_programs(options: Namespace) -> int:
    """`monocomp list`: by what they are about."""
    if options.json:
        streams.say_json(
            [
                {"name": name, "group": group, "about": library.about(name)}
                for group, names in library.GROUPS.items()
                for name in names
            ]
        )
        return 0
    width = max(map(len, library.names()))
    blocks = (
        "\n".join([group, *(f"  {name:{width}}  {library.about(name)}" for name in names)])
        for group, names in library.GROUPS.items()
    )
    streams.say(
        "\n\n".join(blocks) + "\n\nmonocomp show NAME prints one; a copy is yours to edit.\n"
    )
    return 0


def show(options: Namespace) -> int:
    """`monocomp show`: the text, and as comments how its kernel is called."""
    program = compiling.equations(options)
    source, declared = program.origin, program.declared
    if options.json:
        described = {
            "name": source.name,
            "text": source.text,
            "inputs": [_described(i) for i in declared.inputs.values()],
            "params": as_data(tuple(declared.params.values())),
            "outputs": [o.name for o in declared.outputs],
        }
        streams.say_json(described)
        return 0
    keywords = [
        p.name if p.default is None else f"{p.name}={p.default}" for p in declared.params.values()
    ]
    inputs = [n if declared.has_order else f"{n}={n}" for n in declared.inputs]
    call = f"kernel({', '.join([*inputs, *keywords])})"
    results = ", ".join(o.name for o in declared.outputs)
    shapes = ", ".join(f"{i}: {i.kind}" for i in declared.inputs.values())
    text = source.text.rstrip("\n")
    streams.say(f"{text}\n\n# {results} = {call}\n# with {shapes}\n")
    return 0


def _described(at: Any) -> dict[str, Any]:
    return {"name": at.name, "dims": list(at.dims), "kind": at.kind}
