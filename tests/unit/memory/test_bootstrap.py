"""Bootstrap files: within caps, the same bytes until a file changes, and never a reason to fail."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.config import MemoryConfig
from ctxkit.errors import ConfigError
from ctxkit.memory import Bootstrap, BootstrapFiles
from ctxkit.memory.bootstrap import TITLE, render


def bootstrap(directory, **config) -> Bootstrap:
    return Bootstrap(directory, MemoryConfig(**config))


async def text(of: Bootstrap) -> str:
    return await of.text("s1", "scribe")


@pytest.mark.asyncio
async def test_files_stand_in_the_order_of_their_names_and_missing_ones_are_left_out(tmp_path):
    (tmp_path / "MEMORY.md").write_text("Use tabs.\n", encoding="utf-8")
    assert await text(bootstrap(tmp_path)) == "# Workspace files\n\n## MEMORY.md\n\nUse tabs."
    (tmp_path / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    assert (
        await text(bootstrap(tmp_path)) == "# Workspace files\n\n## AGENTS.md\n\nBe brief.\n\n## MEMORY.md\n\nUse tabs."
    )


@pytest.mark.asyncio
async def test_without_files_or_a_directory_nothing_is_added(tmp_path):
    assert await text(bootstrap(tmp_path)) == ""
    assert await text(bootstrap(tmp_path / "nowhere")) == ""
    assert await text(bootstrap(None)) == ""
    (tmp_path / "AGENTS.md").write_text(" \n", encoding="utf-8")
    assert await text(bootstrap(tmp_path)) == ""


@pytest.mark.asyncio
async def test_a_file_over_its_cap_is_cut_with_a_note_and_all_together_keep_to_theirs(tmp_path):
    names = [f"F{n}.md" for n in range(6)]
    for name in names:
        (tmp_path / name).write_text(name + "x" * 6000, encoding="utf-8")
    found = await text(bootstrap(tmp_path, bootstrap_names=names))
    assert len(found) <= 20_000
    parts = found.split("## ")[1:]
    assert all(len(part.partition("\n\n")[2].strip()) <= 5_000 for part in parts)
    assert found.count("is cut here") >= 4
    assert "F5.md" in found


@given(
    files=st.dictionaries(st.text("abc.", min_size=1, max_size=12), st.text(max_size=3000), max_size=8),
    file_chars=st.integers(200, 3000),
    total_chars=st.integers(200, 4000),
)
def test_no_files_ever_take_more_than_the_caps(files, file_chars, total_chars):
    found = render(files, file_chars=file_chars, total_chars=total_chars)
    assert len(found) <= total_chars
    assert bool(found) == any(each.strip() for each in files.values())
    assert found == render(files, file_chars=file_chars, total_chars=total_chars)


@pytest.mark.asyncio
async def test_the_text_is_the_same_object_until_a_file_changes_and_files_are_read_once(tmp_path, monkeypatch):
    path = tmp_path / "AGENTS.md"
    path.write_text("Be brief.", encoding="utf-8")
    of, reads = bootstrap(tmp_path), []
    read = of._read
    monkeypatch.setattr(of, "_read", lambda signature: reads.append(1) or read(signature))
    first = await text(of)
    assert await text(of) is first
    assert len(reads) == 1
    path.write_text("Be long..", encoding="utf-8")
    os.utime(path, ns=(1, 1))
    assert "Be long.." in await text(of)
    path.unlink()
    assert await text(of) == ""


@pytest.mark.asyncio
@pytest.mark.skipif(os.name == "nt", reason="links and pipes of POSIX")
async def test_a_link_a_pipe_or_a_directory_is_left_out_and_named_once(tmp_path, caplog):
    secret = tmp_path / "secret"
    secret.write_text("precious")
    (tmp_path / "A.md").symlink_to(secret)
    (tmp_path / "B.md").mkdir()
    os.mkfifo(tmp_path / "C.md")
    (tmp_path / "D.md").write_text("fine")
    of = bootstrap(tmp_path, bootstrap_names=["A.md", "B.md", "C.md", "D.md"])
    found = await text(of)
    assert found == f"{TITLE}\n\n## D.md\n\nfine"
    (tmp_path / "D.md").write_text("still fine")
    await text(of)
    assert [record.args[0] for record in caplog.records] == ["A.md", "B.md", "C.md"]


@pytest.mark.asyncio
@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
async def test_reading_a_file_leaves_its_mode_alone(tmp_path):
    path = tmp_path / "AGENTS.md"
    path.write_text("Be brief.")
    path.chmod(0o644)
    await text(bootstrap(tmp_path))
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.asyncio
async def test_hooks_add_and_change_files_and_one_that_fails_changes_nothing(tmp_path, caplog):
    (tmp_path / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    seen: list[BootstrapFiles] = []

    def broken(about):
        raise OSError("no")

    async def adds(about):
        seen.append(about)
        return {**about.files, "SOUL.md": "Be kind."}

    of = bootstrap(tmp_path, bootstrap_hooks=[broken, lambda _: 3, lambda _: None, adds])
    found = await text(of)
    assert found.endswith("## AGENTS.md\n\nBe brief.\n\n## SOUL.md\n\nBe kind.")
    assert (seen[0].session_id, seen[0].agent, seen[0].files) == ("s1", "scribe", {"AGENTS.md": "Be brief."})
    assert await text(of) is found
    assert len(seen) == 1
    assert "a bootstrap hook raised" in caplog.text
    assert "returned int" in caplog.text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time_zone", "Mars/Olympus"),
        ("time_zone", "../etc/passwd"),
        ("bootstrap_names", "AGENTS.md"),
        ("bootstrap_names", ["../x"]),
        ("bootstrap_names", ["a/b"]),
        ("bootstrap_names", [""]),
        ("bootstrap_file_chars", 10),
        ("bootstrap_total_chars", 0),
        ("bootstrap_hooks", [3]),
        ("flush", 1),
        ("search_hits", 0),
        ("max_tokens", 1),
        ("close_timeout_s", -1),
        ("close_timeout_s", float("inf")),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(field, value):
    with pytest.raises(ConfigError, match=f"MemoryConfig.{field} is"):
        MemoryConfig(**{field: value})
