"""Tables, logs, diffs and prose: what each keeps."""

from __future__ import annotations

import csv
import io

import pytest

from ctxkit.results import Kind, detect
from ctxkit.results.diff import DiffShortener
from ctxkit.results.kinds import is_diff
from ctxkit.results.log import LogShortener
from ctxkit.results.table import TableShortener
from ctxkit.results.text import TextShortener

CSV = "id,name,price\n" + "".join(f"{i},item {i},{i * 1.5}\n" for i in range(3000))
QUOTED = "id,note,n\n" + "".join(f'{i},"first line\nsecond, line {i}",{i}\n' for i in range(2000))
MARKDOWN = "| id | name |\n|----|:----:|\n" + "".join(f"| {i} | x{i} |\n" for i in range(3000))
COLUMNS = "USER   PID   COMMAND\n" + "".join(f"root   {i}   /bin/x{i}\n" for i in range(3000))
LOG = "".join(f"2026-01-02 10:00:{i % 60:02d} INFO  step {i} done\n" for i in range(9000))
PYTEST = "".join(f"tests/test_a.py::test_{i} PASSED\n" for i in range(900)) + (
    "=== FAILURES ===\n    def test_x():\n>       assert 1 == 2\nE       assert 1 == 2\n=== 1 failed, 900 passed ===\n"
)
DIFF = "".join(
    f"diff --git a/f{i}.py b/f{i}.py\nindex 1..2 100644\n--- a/f{i}.py\n+++ b/f{i}.py\n"
    + "".join(f"@@ -{j},3 +{j},3 @@ def f{j}\n a = 1\n--- old {j}\n+++ new {j}\n" for j in range(1, 30))
    for i in range(12)
)
PLAIN_DIFF = "".join(f"--- a/f{i}\n+++ b/f{i}\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n" for i in range(400))
PROSE = "It was a fine day, and the fox went out. Nobody saw it go.\n\n" * 900
CODE = "".join(
    f"def {name}(a, b):\n    total = a + b\n    if not total:\n        return None\n    return self.{name}[total]\n\n\n"
    for name in ("add", "move", "draw", "save") * 200
)


async def shorten(shortener, text: str, ruler, tokens: int = 300, head_ratio: float = 0.6):
    return await shortener.shorten(text, limit_tokens=tokens, head_ratio=head_ratio, ruler=ruler, tool_name="x")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (CSV, Kind.TABLE),
        (CSV.replace(",", "\t"), Kind.TABLE),
        (CSV.replace("\n", "\r\n"), Kind.TABLE),
        (MARKDOWN, Kind.TABLE),
        (COLUMNS, Kind.TABLE),
        (LOG, Kind.LOG),
        (PYTEST, Kind.LOG),
        (DIFF, Kind.DIFF),
        (PLAIN_DIFF, Kind.DIFF),
        (f"commit abc\nAuthor: x\n\n{DIFF}", Kind.DIFF),
        (PROSE, Kind.TEXT),
        (CODE, Kind.TEXT),
        ("", Kind.TEXT),
        ("[1, 2, 3]", Kind.JSON),
        ('{"a": 1}', Kind.JSON),
        ("\ufeff", Kind.TEXT),
    ],
    ids=str.split("csv tsv crlf markdown columns log pytest diff plain-diff show prose code empty list object bom"),
)
def test_a_kind_is_told_from_a_sample(text: str, kind: Kind) -> None:
    assert detect(text, tool_name="x", verbatim=False) is kind


@pytest.mark.parametrize("text", [CSV, LOG, DIFF, PLAIN_DIFF, f"[1]\n{DIFF}", f"{PROSE}{DIFF}", "", '{"a": 1}'])
@pytest.mark.parametrize("tool_name", ["x", "git_diff"])
def test_a_text_is_a_diff_where_that_is_its_likeliest_kind(text: str, tool_name: str) -> None:
    assert is_diff(text, tool_name=tool_name) is (detect(text, tool_name=tool_name, verbatim=False) is Kind.DIFF)


@pytest.mark.parametrize("text", [CSV, LOG, DIFF, '{"a": 1}'], ids=["csv", "log", "diff", "json"])
def test_what_an_editor_will_match_is_text_whatever_it_looks_like(text: str) -> None:
    assert detect(text, tool_name="Read", verbatim=True) is Kind.TEXT


@pytest.mark.row("X14")
@pytest.mark.parametrize("text", [CSV, CSV.replace("\n", "\r\n"), COLUMNS], ids=["csv", "crlf", "columns"])
@pytest.mark.asyncio
async def test_a_table_keeps_its_header_and_whole_rows_of_both_ends(ruler, text) -> None:
    kept = await shorten(TableShortener(), text, ruler)
    assert kept is not None
    first, last = kept.head.splitlines(keepends=True), kept.tail.splitlines(keepends=True)
    rows = text.splitlines(keepends=True)
    assert (first, last) == (rows[: len(first)], rows[-len(last) :])
    assert kept.shown == f"header, first {len(first) - 1} and last {len(last)} of 3000 rows"


@pytest.mark.asyncio
async def test_a_markdown_rule_is_part_of_the_header(ruler) -> None:
    kept = await shorten(TableShortener(), MARKDOWN, ruler)
    assert kept is not None
    assert kept.shown.endswith("of 3000 rows")
    assert kept.head.startswith("| id | name |\n|----|:----:|\n| 0 |")


@pytest.mark.asyncio
async def test_a_row_that_spans_lines_in_quotes_is_never_parted(ruler) -> None:
    every = list(csv.reader(io.StringIO(QUOTED)))
    for tokens in range(100, 140):
        kept = await shorten(TableShortener(), QUOTED, ruler, tokens)
        assert kept is not None
        first, last = list(csv.reader(io.StringIO(kept.head))), list(csv.reader(io.StringIO(kept.tail)))
        assert (first, last) == (every[: len(first)], every[len(every) - len(last) :])
        assert kept.shown.endswith("of 2000 rows")


@pytest.mark.row("X14")
@pytest.mark.asyncio
async def test_a_log_keeps_each_kind_of_error_once_in_order_and_its_tail(ruler) -> None:
    lines = LOG.splitlines()
    lines[3000] = "2026-01-02 10:00:00 ERROR disk full on /dev/sda1"
    lines[5000] = "2026-01-02 10:00:00 ERROR lost connection to 10.0.0.7"
    lines[6000] = "2026-01-02 10:00:01 ERROR lost connection to 10.0.0.9"
    lines[7000:7004] = [
        "Traceback (most recent call last):",
        '  File "a.py", line 3, in f',
        "    boom()",
        "KeyError: 'k'",
    ]
    lines[-1] = "Exit code: 1"
    kept = await shorten(LogShortener(), "\n".join(lines), ruler, 500)
    assert kept is not None
    assert [line for line in kept.head.splitlines() if "ERROR" in line] == [lines[3000], lines[5000]]
    assert "\n".join(lines[7000:7004]) in kept.head
    assert kept.tail.endswith("\nExit code: 1")
    assert kept.shown.endswith(" lines of 9000")
    assert kept.offset is None


@pytest.mark.asyncio
async def test_a_logs_gaps_and_lines_add_up_to_the_whole(ruler) -> None:
    lines = [
        f"{i:05d} INFO working" if i % 311 else f"{i:05d} ERROR of kind {'abcdefgh'[i // 311 % 8]}" for i in range(4000)
    ]
    kept = await shorten(LogShortener(), "\n".join(lines) + "\n", ruler, 400)
    assert kept is not None
    place = 0
    for line in (kept.head + "<>\n" + kept.tail).splitlines():
        if line.startswith("… "):
            place += int(line.split()[1])
        elif line == "<>":
            place = len(lines) - kept.tail.count("\n")
        else:
            assert line == lines[place]
            place += 1
    assert place == len(lines)


@pytest.mark.asyncio
async def test_a_log_without_errors_or_without_a_wanted_tail_is_left_to_another_kind(ruler) -> None:
    assert await shorten(LogShortener(), LOG, ruler) is None
    assert await shorten(LogShortener(), f"{LOG}ERROR x\n{LOG}", ruler, head_ratio=1.0) is None


@pytest.mark.asyncio
async def test_what_few_errors_leave_goes_to_a_logs_tail(ruler) -> None:
    kept = await shorten(LogShortener(), f"{LOG}ERROR x\n{LOG}", ruler)
    assert kept is not None
    assert "ERROR x" in kept.head
    assert await ruler.count(kept.tail) > 180


@pytest.mark.asyncio
async def test_what_follows_a_diff_is_kept(ruler) -> None:
    kept = await shorten(DiffShortener(), f"{DIFF}</output>\nexit code 1", ruler, 600)
    assert kept is not None
    assert kept.tail == "</output>\nexit code 1"
    assert "exit code" not in kept.head


@pytest.mark.row("X14")
@pytest.mark.parametrize(
    ("text", "files", "hunks"), [(DIFF, 12, 12 * 29), (PLAIN_DIFF, 400, 400)], ids=["git", "plain"]
)
@pytest.mark.asyncio
async def test_a_diff_keeps_headers_and_whole_hunks_unchanged(ruler, text, files, hunks) -> None:
    kept = await shorten(DiffShortener(), text, ruler, 600)
    assert kept is not None
    at = 0
    missing = 0
    for line in kept.head.splitlines(keepends=True):
        if line.startswith("… "):
            missing += int(line.split()[1])
        else:
            at = text.index(line, at) + len(line)
    whole = kept.head.count("@@ -")
    assert missing == hunks - whole
    assert kept.shown.startswith(f"{whole} of {hunks} hunks, headers of ")
    assert kept.shown.endswith(f" of {files} files")
    last_line = "+++ new " if files == 12 else "+c\n"
    assert kept.head.count(last_line) == whole


@pytest.mark.asyncio
async def test_a_diff_keeps_the_headers_of_all_files_that_it_cannot_show(ruler) -> None:
    kept = await shorten(DiffShortener(), DIFF, ruler, 600)
    assert kept is not None
    assert kept.head.count("diff --git") == 12


@pytest.mark.asyncio
async def test_a_diff_of_which_no_hunk_fits_is_left_to_another_kind(ruler) -> None:
    text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,9000 +1,9000 @@\n" + "+line\n" * 9000
    assert await shorten(DiffShortener(), text, ruler) is None


@pytest.mark.asyncio
async def test_prose_is_cut_at_lines_and_words(ruler) -> None:
    words = "the quick brown fox jumps over the lazy dog " * 900
    for tokens in range(50, 80):
        kept = await shorten(TextShortener(), words, ruler, tokens)
        assert kept is not None
        assert set((kept.head + kept.tail).split()) <= set(words.split())
    kept = await shorten(TextShortener(), PROSE, ruler)
    assert kept is not None
    assert kept.head.endswith("\n")
    assert PROSE.startswith(kept.head)
    assert PROSE.endswith(kept.tail)
    assert kept.tail.startswith(("It was", "\n"))
    assert kept.shown == f"first {len(kept.head)} and last {len(kept.tail)} of {len(PROSE)} characters"


@pytest.mark.parametrize(
    "cluster",
    ["👨‍👩‍👧‍👦", "e\u0301", "🇩🇪", "👍🏽", "한", "क्षि"],
    ids=str.split("family accent flag skin jamo conjunct"),
)
@pytest.mark.asyncio
async def test_text_is_never_cut_inside_a_grapheme(ruler, cluster) -> None:
    for tokens in range(20, 60):
        kept = await shorten(TextShortener(), (cluster * 8 + " ") * 400, ruler, tokens)
        assert kept is not None
        assert (kept.head + kept.tail).replace(cluster, "").strip() == ""


@pytest.mark.asyncio
async def test_lines_only_means_whole_lines_however_long(ruler) -> None:
    text = "".join("x" * 150 + f" {i}\r\n" for i in range(900))
    kept = await shorten(TextShortener(lines_only=True), text, ruler, 200)
    assert kept is not None
    assert kept.head.endswith("\r\n")
    assert kept.tail.startswith("xxx")
    assert len(kept.tail.splitlines()[0]) > 150
