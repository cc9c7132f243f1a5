"""What a check has found: a line each, as it comes, or a list for other tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from monocomp.command_line import streams


@dataclass(frozen=True)
class Finding:
    """One line of a report; ok is None for what was left out."""

    section: str
    ok: bool | None
    what: str
    detail: str = ""

    def __str__(self) -> str:
        mark = {True: "ok", False: "FAIL", None: "skip"}[self.ok]
        return f"{mark:4}  {self.what}" + (f"  {self.detail}" if self.detail else "")


def report(findings: Iterable[Finding], *, as_json: bool) -> bool:
    """Say all of them; is none of them a failure?"""
    section, fine, all_of_them = "", True, []
    for finding in findings:
        fine &= finding.ok is not False
        if as_json:
            all_of_them.append(asdict(finding))
            continue
        if finding.section != section:
            streams.say(("\n" if section else "") + finding.section + "\n")
            section = finding.section
        streams.say(f"  {finding}\n")
    if as_json:
        streams.say_json(all_of_them)
    return fine
