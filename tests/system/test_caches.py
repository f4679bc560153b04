"""Where compilers keep what they have compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from fast_core.system.caches import variables


def test_cache_of_the_user_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    expected = tmp_path / ".cache" / "fastloop" / "torchinductor"
    assert variables()["TORCHINDUCTOR_CACHE_DIR"] == str(expected)
    assert not (tmp_path / ".cache").exists()  # that is the compiler's business
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    expected = tmp_path / "cache" / "fastloop" / "torchinductor"
    assert variables()["TORCHINDUCTOR_CACHE_DIR"] == str(expected)


@pytest.mark.parametrize("cache", ["", "relative", "/dev/null/cache", "/proc/1/none"])
def test_torchs_own_default_stays_without_a_cache_that_can_be_written(
    cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    assert variables() == {}
