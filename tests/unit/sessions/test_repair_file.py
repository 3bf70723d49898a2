"""Files of sessions: what is wrong is found, nothing is lost, nobody is overrun."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxkit.errors import NewerFormatError, RecordNotFoundError, SessionLockedError, StoreReadError, StoreWriteError
from ctxkit.offload import Record
from ctxkit.offload import lines as log_lines
from ctxkit.offload.directory import Directory
from ctxkit.offload.locks.file_lease import take
from ctxkit.sessions.repair import repair_file, rewrite, session_files
from ctxkit.sessions.transcript.store import TranscriptSessionStore
from tests.unit.fakes import FakeCodec, agent, call, user

CODEC = FakeCodec()
HEADER = {"type": "session", "version": 1, "id": "abc", "timestamp": "2026-01-01T00:00:00+00:00"}


def line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def message(number: int, text: str = "so") -> bytes:
    return line({"id": f"m{number}", "role": "assistant", "name": "agent", "content": [{"type": "text", "text": text}]})


@pytest.fixture
def sessions(tmp_path) -> Path:
    folder = tmp_path / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def transcript(sessions) -> Path:
    return sessions / "abc.jsonl"


def repair(path, **settings):
    return repair_file(path, codec=CODEC, **settings)


def parsed(path: Path) -> list:
    return [json.loads(text) for text in path.read_bytes().splitlines()]


def beside(path: Path) -> list[str]:
    """Return what stands beside a file, its lock apart."""
    return sorted(p.name for p in path.parent.iterdir() if p != path and not p.name.endswith(".lock"))


# Transcripts


def test_a_sound_transcript_is_left_as_it_is_and_no_lock_is_made(transcript):
    content = line(HEADER) + message(1) + b"\n  \r\n" + message(2)
    transcript.write_bytes(content)

    report = repair(transcript)

    assert (report.kind, report.outcome, report.findings) == ("transcript", "sound", ())
    assert transcript.read_bytes() == content
    assert list(transcript.parent.iterdir()) == [transcript]


@pytest.mark.row("O14")
@pytest.mark.parametrize(
    "bad",
    [
        b'{"id": "torn", "role": "assi\n',
        b"\xff\xfe not text\n",
        b"[" * 100_000 + b"\n",
        b'{"n": ' + b"9" * 10_000 + b"}\n",
        b"\0" * 512 + b"\n",
        b"17\n",
        b'"text"\n',
        b'{"id": "torn"',
    ],
    ids=["torn", "no utf-8", "deep", "huge number", "zeros", "number", "string", "cut off"],
)
def test_a_line_that_is_no_record_is_stored_aside_and_dropped(transcript, bad):
    original = line(HEADER) + message(1) + bad
    after = b"" if not bad.endswith(b"\n") else message(2)
    transcript.write_bytes(original + after)

    report = repair(transcript)

    assert (report.kind, report.outcome) == ("transcript", "repaired")
    assert transcript.read_bytes() == line(HEADER).replace(b": ", b":").replace(b", ", b",") + message(1) + after
    assert [path.read_bytes().rstrip(b"\n") for path in report.dropped] == [bad.rstrip(b"\n")]
    assert report.backup.read_bytes() == original + after
    assert report.findings[0].startswith("line 3: ")
    assert repair(transcript).outcome == "sound"


@pytest.mark.row("O14")
def test_the_original_is_kept_under_the_seeds_name(transcript):
    transcript.write_bytes(line(HEADER) + b"{\n")

    report = repair(transcript)

    stem, pid, time = report.backup.name.rsplit("-", 2)
    assert (stem, int(pid)) == ("abc.jsonl.bak", os.getpid())
    assert time.isdigit()
    assert report.dropped[0].name == f"abc.jsonl.dropped-{time}"


@pytest.mark.row("O14")
def test_a_missing_header_is_made_from_the_name_of_the_file(transcript):
    transcript.write_bytes(message(1))

    report = repair(transcript)

    header, *messages = parsed(transcript)
    assert (header["type"], header["version"], header["id"]) == ("session", 1, "abc")
    assert [each["id"] for each in messages] == ["m1"]
    assert report.findings == ("no header; made for session 'abc'",)
    assert report.dropped == ()


def test_a_missing_header_takes_the_id_from_the_state_beside_it(sessions):
    path = sessions / "a-b~00.jsonl"
    path.write_bytes(message(1))
    (sessions / "a-b~00.state.json").write_text('{"session_id": "A/B", "context": []}')

    repair(path)

    assert parsed(path)[0]["id"] == "A/B"


@pytest.mark.row("O14")
def test_the_first_of_several_headers_is_kept_at_the_top(transcript):
    other = {**HEADER, "id": "other"}
    transcript.write_bytes(message(1) + line({**HEADER, "cwd": "/x"}) + message(2) + line(other))

    report = repair(transcript)

    assert [value.get("id") for value in parsed(transcript)] == ["abc", "m1", "m2"]
    assert parsed(transcript)[0] == {**HEADER, "cwd": "/x"}
    assert report.dropped[0].read_bytes() == line(other)


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"version": "one"}, "version"),
        ({"version": True}, "version"),
        ({"version": 0}, "version"),
        ({"id": 7}, "id"),
        ({"id": ""}, "id"),
        ({"timestamp": None}, "timestamp"),
    ],
)
def test_a_header_with_a_bad_field_is_put_right_and_the_old_one_stored(transcript, broken, named):
    old = line({**HEADER, **broken})
    transcript.write_bytes(old + message(1))

    report = repair(transcript)

    header = parsed(transcript)[0]
    assert (header["type"], header["version"], header["id"]) == ("session", 1, "abc")
    assert isinstance(header["timestamp"], str)
    assert report.findings == (f"the header has no good {named}; put right",)
    assert report.dropped[0].read_bytes() == old
    assert repair(transcript).outcome == "sound"


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_newer_format_is_refused_and_left_as_it_is(transcript, dry_run):
    content = line({**HEADER, "version": 2}) + b"{ what may this be\n"
    transcript.write_bytes(content)

    with pytest.raises(NewerFormatError, match="update ctxkit"):
        repair(transcript, dry_run=dry_run)

    assert transcript.read_bytes() == content
    assert beside(transcript) == []


def test_a_dry_run_says_what_is_wrong_and_writes_nothing(transcript):
    content = message(1) + b"{\n"
    transcript.write_bytes(content)
    before = transcript.stat()

    report = repair(transcript, dry_run=True)

    assert report.outcome == "repairable"
    assert [finding.partition(":")[0] for finding in report.findings] == ["line 2", "no header; made for session 'abc'"]
    assert transcript.read_bytes() == content
    assert transcript.stat().st_mtime_ns == before.st_mtime_ns
    assert list(transcript.parent.iterdir()) == [transcript]


def test_an_empty_file_where_transcripts_are_is_given_its_header(transcript):
    transcript.write_bytes(b"")
    assert repair(transcript).outcome == "repaired"
    assert [value["type"] for value in parsed(transcript)] == ["session"]


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b'{"x": 1}\nnot json\n'])
def test_a_file_of_json_lines_that_is_no_transcript_is_left_alone(tmp_path, content):
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)

    assert repair(path).kind == "other"
    assert path.read_bytes() == content


def test_a_record_behind_zeros_is_kept(transcript):
    transcript.write_bytes(line(HEADER) + b"\0" * 100 + message(1))
    assert repair(transcript).outcome == "repaired"
    assert [value["id"] for value in parsed(transcript)] == ["abc", "m1"]


def test_a_last_line_without_its_break_gets_one_so_that_the_next_record_does_not_run_into_it(transcript):
    transcript.write_bytes(line(HEADER) + message(1).rstrip(b"\n"))
    assert repair(transcript).outcome == "repaired"
    assert transcript.read_bytes().endswith(message(1))


def test_repaired_files_are_private(transcript):
    transcript.write_bytes(message(1) + b"{\n")
    transcript.chmod(0o644)

    report = repair(transcript)

    for path in (transcript, report.backup, *report.dropped):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_line_too_long_to_parse_is_kept_by_its_brackets_and_one_without_them_is_dropped(transcript, monkeypatch):
    monkeypatch.setattr("ctxkit.sessions.repair.jsonl.LINE_BYTES", 1000)
    long, bad = message(1, "x" * 5000), b"x" * 5000 + b"\n"
    transcript.write_bytes(line(HEADER) + long + bad + message(2))

    report = repair(transcript)

    assert transcript.read_bytes().endswith(b"}\n" + long + message(2))
    assert report.dropped[0].read_bytes() == bad


def test_many_bad_lines_are_told_by_their_number(transcript):
    transcript.write_bytes(line(HEADER) + b"{\n" * 200)
    report = repair(transcript)
    assert len(report.findings) == 51
    assert report.findings[-1] == "and 150 more"
    assert report.dropped[0].read_bytes() == b"{\n" * 200


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(st.binary(max_size=40), st.sampled_from([message(1), message(2), line(HEADER), b"\n"])), max_size=12
    )
)
def test_nothing_of_a_transcript_is_lost_whatever_it_holds(transcript, parts):
    content = b"".join(parts)
    transcript.write_bytes(content)
    for name in beside(transcript):
        (transcript.parent / name).unlink()

    try:
        report = repair(transcript)
    except NewerFormatError:
        return

    if report.outcome == "repaired":
        assert report.backup.read_bytes() == content
        kept = [
            *transcript.read_bytes().split(b"\n"),
            *(x for p in report.dropped for x in p.read_bytes().split(b"\n")),
        ]
        joined = b"\n".join(kept)
        for text in content.split(b"\n"):
            assert text.strip(b" \t\r\0") in joined or '"session"' in text.decode("utf-8", "replace")
        assert all(isinstance(json.loads(text), dict) for text in transcript.read_bytes().split(b"\n") if text.strip())
    assert repair(transcript).outcome == "sound"


# Locks, links and failures


def test_a_session_that_somebody_holds_is_not_touched(transcript):
    content = message(1) + b"{\n"
    transcript.write_bytes(content)
    with Directory.at(transcript.parent, create=False) as folder:
        lease = take(folder, "abc.jsonl.lock", owner={"owner": "agent 'scribe'"})
        try:
            with pytest.raises(SessionLockedError, match="scribe"):
                repair(transcript)
            assert repair(transcript, dry_run=True).outcome == "repairable"
        finally:
            lease.release()
    assert transcript.read_bytes() == content
    assert beside(transcript) == []
    assert repair(transcript).outcome == "repaired"


def test_links_pipes_and_directories_are_refused(transcript, tmp_path):
    target = tmp_path / "target.jsonl"
    target.write_bytes(message(1) + b"{\n")
    transcript.symlink_to(target)
    with pytest.raises(StoreReadError, match="plain file"):
        repair(transcript)
    os.mkfifo(transcript.parent / "pipe.jsonl")
    with pytest.raises(StoreReadError):
        repair(transcript.parent / "pipe.jsonl")
    (transcript.parent / "folder.jsonl").mkdir()
    with pytest.raises(StoreReadError):
        repair(transcript.parent / "folder.jsonl")
    with pytest.raises(RecordNotFoundError):
        repair(transcript.parent / "none.jsonl")
    assert target.read_bytes() == message(1) + b"{\n"


def test_a_file_that_changes_while_it_is_repaired_is_left_as_it_became(transcript, monkeypatch):
    transcript.write_bytes(line(HEADER) + b"{\n")
    fill = rewrite._fill

    def fill_and_append(target, descriptor, pieces):
        fill(target, descriptor, pieces)
        with transcript.open("ab") as file:
            file.write(message(9))

    monkeypatch.setattr(rewrite, "_fill", fill_and_append)
    with pytest.raises(StoreWriteError, match="was changed"):
        repair(transcript)
    assert transcript.read_bytes().endswith(message(9))
    assert not [name for name in beside(transcript) if name.startswith(".tmp")]


@pytest.mark.parametrize("call_name", ["fsync", "fdatasync", "link", "replace", "write"])
def test_a_failing_disk_leaves_the_original_and_no_half_file(transcript, monkeypatch, call_name):
    content = line(HEADER) + message(1) + b"{\n"
    transcript.write_bytes(content)

    def fail(*args, **kwargs):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, call_name, fail)
    with pytest.raises(StoreWriteError):
        repair(transcript)
    monkeypatch.undo()
    assert transcript.read_bytes() == content
    assert not [name for name in beside(transcript) if name.startswith(".tmp")]
    assert repair(transcript).outcome == "repaired"


@pytest.mark.crash
@pytest.mark.parametrize("dies_at", range(1, 12))
def test_a_killed_repair_leaves_a_whole_file_and_the_original(transcript, dies_at):
    content = line(HEADER) + message(1) + b"{\n" + message(2)
    transcript.write_bytes(content)
    script = f"""
import os, signal, sys
count = 0
def dying(name, real):
    def call(*args, **kwargs):
        global count
        count += 1
        if count == {dies_at}:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    setattr(os, name, call)
from ctxkit.sessions.repair import repair_file
for name in ("link", "replace", "fsync", "fdatasync", "unlink"):
    dying(name, getattr(os, name))
repair_file(sys.argv[1], codec=None)
"""
    subprocess.run([sys.executable, "-c", script, str(transcript)], check=False, env={**os.environ})

    now = transcript.read_bytes()
    originals = [p.read_bytes() for p in transcript.parent.iterdir() if ".bak-" in p.name]
    assert now == content or content in originals
    assert [value["id"] for value in parsed(transcript)] == ["abc", "m1", "m2"] if now != content else True
    repair(transcript)
    assert [value["id"] for value in parsed(transcript)] == ["abc", "m1", "m2"]


# States


@pytest.mark.row("O14", "O15")
def test_a_saved_state_is_repaired_and_what_it_loses_is_stored_first(sessions):
    path = sessions / "abc.state.json"
    state = {
        "session_id": "abc",
        "context": [asdict(user("do")), asdict(agent(call("a"))), asdict(user("x")), 7],
        "extra": {"kept": True},
    }
    path.write_text(json.dumps(state))

    report = repair(path)

    assert (report.kind, report.outcome) == ("state", "repaired")
    new = json.loads(path.read_text())
    assert [block["type"] for block in new["context"][1]["content"]] == ["tool_call", "tool_result"]
    assert new["extra"] == {"kept": True}
    assert json.loads(report.backup.read_text()) == state
    assert parsed(report.dropped[0]) == [{"broken": 7}]
    assert repair(path).outcome == "sound"


def test_a_state_of_a_newer_format_is_refused(sessions):
    path = sessions / "abc.state.json"
    content = '{"context": [7], "_ctxkit": {"version": 2}}'
    path.write_text(content)
    with pytest.raises(NewerFormatError, match="update ctxkit"):
        repair(path)
    assert path.read_text() == content


@pytest.mark.asyncio
async def test_what_a_session_store_wrote_is_repaired_and_loaded_and_saved_again(tmp_path):
    store = TranscriptSessionStore(tmp_path)
    done = asdict(agent("done"))
    await store.save("abc", {"session_id": "abc", "context": [asdict(user("do")), asdict(agent(call("a"))), done]})
    with (tmp_path / "agents" / "main" / "sessions" / "abc.jsonl").open("ab") as file:
        file.write(b'{"torn\n')

    def repair_all():
        return [repair(path) for path in session_files(tmp_path)]

    reports = await asyncio.to_thread(repair_all)

    assert [(report.kind, report.outcome) for report in reports] == [("transcript", "repaired"), ("state", "repaired")]
    saved = await store.load("abc")
    assert [len(message["content"]) for message in saved.state["context"]] == [1, 2, 1]
    assert [row.session_id async for row in store.list()] == ["abc"]
    await store.save("abc", {**saved.state, "context": [*saved.state["context"], asdict(user("more"))]})
    assert [report.outcome for report in await asyncio.to_thread(repair_all)] == ["sound", "sound"]
    assert len((await store.load("abc")).state["context"]) == 4
    await store.aclose()


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"[]", b"\xff"])
def test_a_state_that_cannot_be_parsed_is_left_with_a_remedy(sessions, content):
    path = sessions / "abc.state.json"
    path.write_bytes(content)
    assert "restore a backup" in repair(path).findings[0]

    (sessions / "abc.jsonl").write_bytes(line(HEADER))
    report = repair(path)
    assert report.outcome == "failed"
    assert "transcript" in report.findings[0]
    assert path.read_bytes() == content


def test_a_json_file_that_is_no_state_is_left_alone(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text('{"a": 1}')
    assert (repair(path).kind, repair(path).outcome) == ("other", "failed")


# Logs of stores


def sealed(number: int) -> bytes:
    record = Record(key=f"k{number}", body=json.dumps({"id": f"m{number}"}))
    return log_lines.seal(log_lines.encode(record), record, number)


def test_a_log_is_mended_in_place_and_never_rewritten(tmp_path):
    folder = tmp_path / "store" / "sessions" / "s1"
    folder.mkdir(parents=True)
    path = folder / "context.jsonl"
    bad = sealed(2).replace(b"m2", b"mX")
    path.write_bytes(sealed(1) + bad + sealed(3) + b'{"torn": ')
    inode = path.stat().st_ino

    dry = repair(path, dry_run=True)
    assert (dry.kind, dry.outcome, len(dry.findings)) == ("log", "repairable", 2)
    report = repair(path)

    assert report.outcome == "repaired"
    assert path.stat().st_ino == inode
    assert path.read_bytes() == sealed(1) + b" " * (len(bad) - 1) + b"\n" + sealed(3)
    assert sorted(p.read_bytes() for p in report.dropped) == sorted([bad.rstrip(b"\n"), b'{"torn": '])
    assert repair(path).outcome == "sound"


def test_a_transcript_whose_session_is_named_like_a_log_is_repaired_as_a_transcript(sessions):
    path = sessions / "context.jsonl"
    path.write_bytes(line({**HEADER, "id": "context"}) + message(1) + b"no json\n" + message(2))
    report = repair(path)
    assert (report.kind, report.outcome) == ("transcript", "repaired")
    assert [item.get("id") for item in parsed(path)] == ["context", "m1", "m2"]
    assert report.backup is not None


def test_files_of_sessions_are_found_and_links_and_hidden_ones_are_not(tmp_path):
    for name in (
        "b/abc.jsonl",
        "a/x.state.json",
        "a/sessions.json",
        ".trash/y.jsonl",
        "a/z.jsonl.bak-1-2",
        "a/.h.jsonl",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "a" / "link.jsonl").symlink_to(tmp_path / "b" / "abc.jsonl")
    (tmp_path / "linked").symlink_to(tmp_path / "b")

    found = [str(path.relative_to(tmp_path)) for path in session_files(tmp_path)]

    assert found == ["a/x.state.json", "b/abc.jsonl"]
