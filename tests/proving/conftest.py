"""Proofs that tests share, and that are remembered nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from monocomp.proving import proofs


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test remembers in a folder of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(folder))
    monkeypatch.setattr(proofs, "_IN_MEMORY", {})
    return folder
