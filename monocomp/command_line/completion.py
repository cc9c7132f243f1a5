"""`monocomp completion SHELL`: a script that knows the commands, their options, the values that
these take, and the programs of the library.

It is written from the parser itself, so it knows what the parser knows.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from monocomp import library
from monocomp.declarations.record import record

SHELLS = ("bash", "zsh", "fish")


@record()
class Option:
    """An option of a command, what it is for, and the values it takes if they are few."""

    names: tuple[str, ...]
    about: str
    values: tuple[str, ...]


@record()
class Command:
    """A command, what it is for, its options, and the words that may follow it."""

    about: str
    options: tuple[Option, ...]
    words: tuple[str, ...]


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for a shell, which evaluates it."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](_commands(parser))


def _commands(parser: argparse.ArgumentParser) -> dict[str, Command]:
    (group,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    found = {}
    for name, command in group.choices.items():
        words: Sequence[str] = ()
        options = []
        for action in command._actions:
            values = tuple(map(str, action.choices or ()))
            if action.option_strings:
                options.append(Option(tuple(action.option_strings), action.help or "", values))
            elif action.dest == "program":
                words = library.names()
            else:
                words = values
        found[name] = Command(command.description or "", tuple(options), tuple(words))
    return found


def _bash(commands: Mapping[str, Command]) -> str:
    cases = []
    for name, command in commands.items():
        flags = " ".join(n for option in command.options for n in option.names)
        values = " ".join(
            f"{'|'.join(o.names)}) words='{' '.join(o.values)}' ;;"
            for o in command.options
            if o.values
        )
        cases += [
            f"    {name})",
            f"      words='{' '.join(command.words)}'",
            f"      [[ $now == -* ]] && words='{flags}'",
            *([f'      case "$before" in {values} esac'] if values else []),
            "      ;;",
        ]
    lines = [
        '# for bash: eval "$(monocomp completion bash)" in ~/.bashrc',
        "_monocomp() {",
        '  local now="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=',
        "  if [[ $COMP_CWORD == 1 ]]; then",
        f"    words='{' '.join(commands)} --help --version'",
        '  else case "${COMP_WORDS[1]}" in',
        *cases,
        "  esac; fi",
        '  COMPREPLY=($(compgen -W "$words" -- "$now"))',
        "}",
        "complete -o default -F _monocomp monocomp",
    ]
    return "\n".join(lines) + "\n"


def _zsh(commands: Mapping[str, Command]) -> str:
    cases = []
    for name, command in commands.items():
        arguments = []
        for option in command.options:
            # `_arguments` takes brackets and colons for its own.
            about = option.about.translate(str.maketrans("[]:'", "()- "))
            values = f":value:({' '.join(option.values)})" if option.values else ""
            arguments += [f"'{n}[{about}]{values}'" for n in option.names]
        if command.words:
            arguments.append(
                f'\'*:word:_alternative "words:word:({" ".join(command.words)})"'
                ' "files:file:_files"\''
            )
        cases.append(f"    {name}) _arguments {' '.join(arguments)} ;;")
    described = " ".join(f"'{n}:{c.about.replace(chr(39), ' ')}'" for n, c in commands.items())
    lines = [
        "#compdef monocomp",
        '# for zsh: eval "$(monocomp completion zsh)" in ~/.zshrc, after compinit',
        "_monocomp() {",
        f"  local -a commands=({described})",
        "  if (( CURRENT == 2 )); then _describe command commands; return; fi",
        "  local command=$words[2]",
        "  shift words; (( CURRENT-- ))",
        "  case $command in",
        *cases,
        "  esac",
        "}",
        "compdef _monocomp monocomp",
    ]
    return "\n".join(lines) + "\n"


def _fish(commands: Mapping[str, Command]) -> str:
    lines = ["# for fish: monocomp completion fish > ~/.config/fish/completions/monocomp.fish"]
    for name, command in commands.items():
        about = command.about.replace("'", " ")
        lines.append(f"complete -c monocomp -n __fish_use_subcommand -a {name} -d '{about}'")
        here = f"complete -c monocomp -n '__fish_seen_subcommand_from {name}'"
        if command.words:
            lines.append(f"{here} -a '{' '.join(command.words)}'")
        for option in command.options:
            names = " ".join(
                f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names
            )
            values = f" -x -a '{' '.join(option.values)}'" if option.values else ""
            lines.append(f"{here} {names}{values} -d '{option.about.replace(chr(39), ' ')}'")
    return "\n".join(lines) + "\n"
