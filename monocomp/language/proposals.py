"""Propose the line that was meant where a program has an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from monocomp.declarations.vocabulary import DTYPES
from monocomp.errors import LimitError, MonocompError, UnknownNameError
from monocomp.language.mistakes import CONTINUING
from monocomp.language.rewording import reword


def help_with(text: str, error: MonocompError, check: Callable[[str], object]) -> None:
    """Let an error show the statement as this language writes it, where that can be told.

    Args:
        text: the program.
        error: what is wrong with it.
        check: raises the error of another program.
    """
    line = _propose(text, error, check)
    if line is not None:
        error.help = f"write {line}"
        error.args = (str(error),)


def _propose(text: str, error: MonocompError, check: Callable[[str], object]) -> str | None:
    if not error.spans or isinstance(error, LimitError):
        return None
    for start, stop in _statements_around(text, error.spans[0].start):
        statement = text[start:stop]
        line = _declaration(statement) or reword(statement)
        if line is None or "".join(line.split()) == "".join(statement.split()):
            continue
        numbers = _undeclared(text[:start], line, text[stop:], check)
        if numbers is not None and all(_is_operand(name, statement) for name in numbers):
            return f"{line}, with param {': float, '.join(numbers)}: float" if numbers else line
    return None


def _declaration(statement: str) -> str | None:
    """Return a statement of inputs, results or an extent in its form, if it is one of these."""
    statement = re.sub(r"^inputs\b", "input", statement.strip())
    if index := re.fullmatch(
        r"index\s+(\w+)\s*(?:in|=|:)\s*(?:range\s*\(\s*)?(\w+)\s*\)?", statement
    ):
        return f"index {index[1]} < {index[2]}"
    if not re.match(r"(input|return)\b[^=]*$", statement):
        return None
    if statement.startswith("return"):
        return re.sub(r"\[[^\[\]]*\]", "", statement).strip(" ,")
    # The tensors of a call have the dtypes of floats.
    statement = re.sub(r"^input\s+(float|half|double|tensor|Tensor)\s+(?=\w)", "input ", statement)
    statement = re.sub(r"\s*:\s*(torch\.)?Tensor\s*(?=[\[(])", "", statement)
    kinds = rf":\s*({'|'.join(DTYPES)}|half|double|bf16|fp16|fp32)\b"
    statement = re.sub(kinds, "", statement).translate(str.maketrans("({)}", "[[]]"))
    return re.sub(r",\s*(?=[\],]|$)", "", statement)


def _undeclared(
    before: str, line: str, after: str, check: Callable[[str], object]
) -> list[str] | None:
    """Return the names in a line that are to be declared as numbers, or None if it is wrong."""
    names: list[str] = []
    while True:
        head = "".join(f"param {name}: float\n" for name in names) + before
        try:
            check(head + line + after)
        except MonocompError as other:  # which the rest of the program may have
            place = other.spans[0].start - len(head) if other.spans else 0
            if 0 <= place <= len(line):
                name = re.match(r"\w+", line[place:])
                if not isinstance(other, UnknownNameError) or not name or name[0] in names:
                    return None
                names.append(name[0])
                continue
        return names


def _is_operand(name: str, statement: str) -> bool:
    """True if a name stands between operators, as the d of `Q @ K.T / sqrt(d)` does."""
    return re.search(rf"[-+*/({{]\s*{name}\s*([-+*/,)}}]|$)", statement) is not None


def _statements_around(text: str, offset: int) -> Iterator[tuple[int, int]]:
    """Return where the statement around a place begins and ends: as its brackets say, then as its
    line does."""
    line = (text.rfind("\n", 0, offset) + 1, (text + "\n").find("\n", offset))
    begin, end, depth, goes_on = 0, -1, 0, False
    for code in text.split("\n"):
        begin = begin if goes_on else end + 1
        end += 1 + len(code)
        code = code.partition("#")[0].rstrip()
        depth += len(re.findall(r"[(\[{]", code)) - len(re.findall(r"[)\]}]", code))
        last = re.search(r"\w+$|[^\w\s]+$", code)
        is_open = code.endswith(":") or (last is not None and last[0] in CONTINUING)
        goes_on = depth > 0 or is_open
        if not goes_on and offset <= end:
            break
    for start, stop in dict.fromkeys([(begin, end), line]):
        yield start + len(text[start:stop]) - len(text[start:stop].lstrip()), stop
