"""The reminder behind a summary."""

from ctxkit.ledger import Command, Ledger
from ctxkit.summary.reminder import META_TOOL, reminder_text


def tool(name, **parameters):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": parameters}}}


def test_few_tools_are_named_one_by_one():
    assert "Your tools: Read, Bash." in reminder_text([tool("Read"), tool("Bash")], Ledger(), most_tools=2)


def test_many_tools_are_named_by_their_groups():
    tools = [*(tool(f"github__{n}") for n in range(12)), *(tool(f"files.{n}") for n in range(9)), tool("Bash")]

    text = reminder_text(tools, Ledger(), most_tools=20)

    assert "You have 22 tools: Bash (1), files (9), github (12)." in text
    assert "github__3" not in text


def test_groups_that_are_switched_off_are_named_with_the_tool_that_switches_them_on():
    meta = tool(META_TOOL, browser={"type": "boolean"}, database={"type": "boolean"})

    text = reminder_text([meta, tool("Bash"), tool("Read")], Ledger(), most_tools=2)

    assert f"`{META_TOOL}` switches on and off: browser, database; call it when you need one." in text


def test_a_thousand_groups_do_not_make_a_long_reminder():
    text = reminder_text([tool(f"server{n}__do") for n in range(1000)], Ledger(), most_tools=20)

    assert len(text) < 2500
    assert "more." in text


def test_it_says_what_was_accomplished_newest_first():
    ledger = Ledger(
        files={"a.py": "modified", "b.py": "read", "c.py": "created"},
        commands=(Command("pytest -q", "exit 1: 2 failed"), Command("make", ""), Command("pytest", "ok")),
    )

    text = reminder_text([], ledger, most_tools=20)

    assert "Files you changed, newest first: c.py (created), a.py (modified)." in text
    assert "Commands you ran, newest first: pytest -> ok; pytest -q -> exit 1: 2 failed." in text
    assert "b.py" not in text


def test_the_same_state_always_gives_the_same_text():
    tools = [tool(f"t{n}_x") for n in range(30)]

    assert reminder_text(tools, Ledger(), most_tools=5) == reminder_text(list(tools), Ledger(), most_tools=5)
