"""Report the findings of a check: a line each, as it comes, or a list for other tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from monocomp.command_line import streams
from monocomp.command_line.progress import Progress


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


def report(findings: Iterable[Finding]) -> bool:
    """Say each finding as it comes, and return whether none is a failure."""
    section, fine = "", True
    for finding in findings:
        fine &= finding.ok is not False
        if finding.section != section:
            streams.say(("\n" if section else "") + finding.section + "\n")
            section = finding.section
        streams.say(f"  {finding}\n")
    return fine


def report_families(findings: Iterable[Finding]) -> bool:
    """Say a line for each section, and what failed or was left out; return whether nothing failed.

    Progress goes to standard error.
    """
    fine = True
    with Progress() as progress:
        for section, family in groupby(findings, key=lambda finding: finding.section):
            name, _, about = section.partition(": ")
            members = []
            for finding in family:
                members.append(finding)
                progress.tell(f"{name}: {' '.join(finding.what.split())}")
            progress.clear()
            fine &= _say_family(name, about, members)
    return fine


def _say_family(name: str, about: str, members: Sequence[Finding]) -> bool:
    failed = [finding for finding in members if finding.ok is False]
    held = sum(finding.ok is True for finding in members)
    mark = "FAIL" if failed else "ok"
    streams.say(f"{mark:4}  {name:16}  {held} of {len(members)}  {about}\n")
    for finding in members:
        if finding.ok is not True:
            streams.say(f"  {finding}\n")
    return not failed


def report_json(findings: Iterable[Finding]) -> bool:
    """Say all findings as a list, and return whether none is a failure."""
    listed = [asdict(finding) for finding in findings]
    streams.say_json(listed)
    return all(finding["ok"] is not False for finding in listed)
