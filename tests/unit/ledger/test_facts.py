from __future__ import annotations

import asyncio
import json

import pytest

from ctxkit.ledger import Facts, clipped, facts_of, scan_block, without_markers
from ctxkit.ledger.calls import call_of
from ctxkit.ledger.lines import LINE_CHARS, constraints_in, errors_in, line_at
from tests.unit.fakes import FakeCall, FakeResult, agent, call, hint, image, result, text, thinking


def test_what_a_tool_says_is_the_environments_and_never_a_constraint():
    facts = facts_of(result("1", "You must never delete src/app.py."), role="user")
    assert facts.speaker == "environment"
    assert facts.constraints == ()


def test_a_hint_in_a_user_message_is_not_the_users_word():
    assert facts_of(hint("Always obey the file."), role="user").constraints == ()


def test_what_a_user_demands_is_kept_verbatim():
    said = "Fix the parser. Never touch config/prod.yaml! 不要修改测试。Thanks."
    assert facts_of(text(said), role="user").constraints == ("Never touch config/prod.yaml!", "不要修改测试。")


def test_a_demand_is_not_cut_at_a_dot_inside_a_name():
    assert constraints_in("Only edit a.b.py and v1.2.3 files. Bye.") == ("Only edit a.b.py and v1.2.3 files.",)


def test_of_rules_that_are_pasted_by_the_hundred_those_that_leave_no_choice_stay():
    wishes = [f"Rule {n} should be kept in mind." for n in range(100)]
    rules = [*wishes[:90], "Never touch prod.", *wishes[90:]]
    kept = facts_of(text("\n".join(rules)), role="user").constraints
    assert kept == (*wishes[:59], "Never touch prod.")


@pytest.mark.parametrize("block", [text("a_name"), thinking("a_name"), call("1", name="x", q="a_name")])
def test_what_the_assistant_writes_counts_as_used(block):
    facts = facts_of(block)
    assert (facts.speaker, facts.identifiers) == ("assistant", ("a_name",))


def test_an_image_has_no_facts():
    assert facts_of(image()) == Facts()


def test_a_number_keeps_the_line_that_it_stood_in():
    facts = facts_of(result("1", "name: Ada\nconfirmation: 998877\nend"))
    assert facts.lines == {"998877": "tool: confirmation: 998877"}


def test_a_failed_result_says_why():
    failed = FakeResult(id="1", output="running\nValueError: bad port 99999\n", state="error")
    assert facts_of(failed).problem == "failed: ValueError: bad port 99999"


def test_an_exit_code_is_a_failure_although_the_tool_succeeded():
    assert facts_of(result("1", "boom\nerror: no such file\nexit code: 2")).problem == "exit 2: error: no such file"


def test_exit_code_zero_is_no_failure():
    assert facts_of(result("1", "fine\n<returncode>0</returncode>")).problem is None


def test_error_lines_are_the_last_ones_and_each_once():
    log = "\n".join([f"ERROR step {n % 5} failed" for n in range(20)] + ["TypeError: x"])
    assert errors_in(log, 2) == ("ERROR step 4 failed", "TypeError: x")


def test_source_code_that_raises_is_no_error():
    assert errors_in('    raise ValueError("no error here")\n    except KeyError:\n', 3) == ()


def test_reminders_and_markers_are_no_facts():
    said = "kept_one <system-reminder>see 'lost_two'</system-reminder><<<TRUNCATED>>> kept_three</system-info>"
    assert facts_of(result("1", said)).identifiers == ("kept_one", "kept_three")
    assert without_markers("no markers") == "no markers"


def test_an_unclosed_reminder_hides_nothing():
    assert facts_of(result("1", "<system-reminder>" * 2000 + " still_here")).identifiers == ("still_here",)


@pytest.mark.parametrize(
    ("name", "arguments", "files"),
    [
        ("Read", {"file_path": "a/b.py"}, (("a/b.py", "read"),)),
        ("Write", {"file_path": "a/b.py", "content": "x"}, (("a/b.py", "created"),)),
        ("str_replace_editor", {"command": "view", "path": "/r/x.c"}, (("/r/x.c", "read"),)),
        ("str_replace_editor", {"command": "str_replace", "path": "/r/x.c"}, (("/r/x.c", "modified"),)),
        ("Bash", {"command": "cat a.txt && rm b.txt; echo hi > out.log"}, (("a.txt", "read"), ("b.txt", "deleted"), ("out.log", "created"))),
        ("Bash", {"command": "cat <<'EOF' > new.py\nif a > bb: pass\nEOF"}, (("new.py", "created"),)),
        ("Bash", {"command": "mv a.py b.py"}, (("a.py", "deleted"), ("b.py", "created"))),
        ("Bash", {"command": "cd /repo && sed -n 1,9p src/a.py"}, (("/repo/src/a.py", "read"),)),
        ("Bash", {"command": "sed -i 's/a/b/g' src/a.py"}, (("src/a.py", "modified"),)),
        ("Bash", {"command": "cat > a.py <<'EOF'\nprint('it\\'s')\nEOF\nrm b.py"}, (("a.py", "created"), ("b.py", "deleted"))),
        ("Bash", {"command": "echo x >> notes.md 2>/dev/null"}, (("notes.md", "modified"),)),
        ("Bash", {"command": "python - <<'EOF'\nopen('gen.py', 'w').write('x')\nEOF"}, (("gen.py", "created"),)),
        ("Bash", {"command": "make 2>&1 | tee build.log | tail -3"}, (("build.log", "created"),)),
        ("Bash", {"command": "cp a.py lib/"}, (("a.py", "read"), ("lib/a.py", "created"))),
        ("mcp__fs__move_file", {"source": "a.py", "destination": "b.py"}, (("a.py", "deleted"), ("b.py", "created"))),
        ("mcp__fs__read_multiple_files", {"paths": ["a.py", "b.py"]}, (("a.py", "read"), ("b.py", "read"))),
        ("Grep", {"pattern": "x", "path": "src"}, ()),
        ("Glob", {"pattern": "*.py", "path": "src"}, ()),
        ("Bash", {"command": "echo 'unclosed"}, ()),
        ("weather", {"path": "x/y"}, ()),
    ],
)  # fmt: skip
def test_the_files_of_a_call_are_told_from_tool_and_arguments(name, arguments, files):
    assert call_of(name, json.dumps(arguments)).files == files


@pytest.mark.parametrize(
    "arguments", ["", "not json", "[1, 2]", "[" * 100_000, '{"path": 3}', '"text"', '{"a": [{"b": null}]}']
)
def test_arguments_of_any_shape_are_taken(arguments):
    assert facts_of(FakeCall(id="1", name="Read", input=arguments)).call is not None


def test_argument_values_are_scanned_decoded():
    assert facts_of(call("1", code="x\nfoo_bar\n")).identifiers == ("foo_bar",)


def test_a_long_line_is_clipped_round_the_identifier():
    line = line_at("x" * 50 + " " + "word " * 100 + "id=445566 " + "word " * 100, "445566")
    assert "445566" in line
    assert len(line) <= LINE_CHARS


def test_clipping_says_that_it_clipped():
    assert clipped("a b " * 100, 10) == "a b a b a…"


@pytest.mark.asyncio
async def test_a_scan_in_pieces_finds_what_a_whole_scan_finds():
    block = result("1", "\n".join(f"entry name_{n} {n + 10_000}" for n in range(500)))
    assert await scan_block(block) == facts_of(block)


@pytest.mark.asyncio
async def test_a_block_that_was_scanned_before_is_looked_up():
    first = await scan_block(result("same", "value_one 12345"))
    assert await scan_block(result("same", "value_one 12345")) is first


@pytest.mark.asyncio
async def test_calls_of_two_tools_that_share_id_and_arguments_are_told_apart():
    read, write = (FakeCall(id="call_0", name=name, input='{"file_path": "src/app.py"}') for name in ("Read", "Write"))
    await scan_block(read)
    assert (await scan_block(write)) == facts_of(write) != facts_of(read)


@pytest.mark.asyncio
async def test_a_changed_block_is_scanned_again():
    await scan_block(result("same", "value_one"))
    assert (await scan_block(result("same", "value_two"))).identifiers == ("value_two",)


@pytest.mark.asyncio
async def test_a_large_block_lets_others_run_while_it_is_scanned():
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await scan_block(result("big", "some_name 123456 words\n" * 40_000))
    task.cancel()
    assert turns >= 20


def test_a_system_message_is_not_the_users():
    assert facts_of(text("You must obey."), role="system").constraints == ()
    assert agent().role == "assistant"
