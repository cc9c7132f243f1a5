"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import threading

from monocomp.machine.plain_files import write


def test_an_old_file_keeps_its_mode_and_links(tmp_path) -> None:
    path, link = tmp_path / "real", tmp_path / "link"
    path.write_text("old and longer")
    path.chmod(0o662)  # more than the umask would leave
    link.symlink_to(path)
    if os.geteuid() == 0:
        os.chown(path, 1234, 5678)
    before = path.stat()
    write(link, b"new")
    after = path.stat()
    assert link.is_symlink() and path.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


def test_pipes_and_devices_are_written_not_replaced(tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write(pipe, b"text")
    reader.join(10)
    assert read == ["text"] and pipe.is_fifo()
