"""A page on this machine that compiles what is typed: `monocomp serve`.

handler    what is asked for over HTTP, and by whom
compiler   a process that compiles; the newest request wins, and none takes longer than a limit
answers    a request compiled and shown, with the parts of the explorer's page
page       the page around them
"""

from __future__ import annotations

from monocomp.server.handler import PORT, Server

__all__ = ["PORT", "Server"]
