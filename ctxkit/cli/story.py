"""The story of the demo, as data: what the user says, and which tools the scripted agent uses step by step.

The agent surveys the installed Python standard library. It only reads: the commands that it runs import nothing from the
environment and write no byte code.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

CONSTRAINT: Final = "Rule for all you do here: only read, never change a file of this installation, not even a cache."
"""What the user lays down at the beginning, and what must still stand in the context at the end."""

ASKED_FILE: Final = "tempfile.py"
"""The question is about this file's record in the inventory: too far down in it to stay in any context."""

DIGEST_CHARS: Final = 16
"""Hexadecimal digits of a digest in the inventory."""


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """One call of one tool."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One answer of the model: what it says, and the tools that it calls with it, in parallel if several."""

    what: str
    uses: tuple[ToolUse, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What the user says, what the agent does about it, and what it answers."""

    request: str
    steps: tuple[Step, ...]
    answer: str | None
    """`None` where the answer depends on what the agent has found."""


@dataclass(frozen=True, kw_only=True)
class Story:
    """The whole run."""

    turns: tuple[Turn, ...]
    expected: str
    """The right answer to the last turn's question."""

    @property
    def question(self) -> str:
        """What the user asks at the end."""
        return self.turns[-1].request

    @property
    def steps_total(self) -> int:
        """Answers of the model in the whole story, the final one of each turn included."""
        return sum(len(turn.steps) + 1 for turn in self.turns)


@dataclass(frozen=True, kw_only=True)
class Hands:
    """How the agent gets at the library on this machine.

    Args:
        library: The folder of the standard library.
        python: The interpreter that its commands run.
        has_ripgrep: Whether AgentScope's Grep can work here; without it the agent runs `grep`.
    """

    library: Path
    python: str
    has_ripgrep: bool

    def read(self, name: str, *, offset: int = 1, limit: int = 2000) -> ToolUse:
        """Read lines of a file of the library."""
        arguments = {"file_path": str(self.library / name), "offset": offset, "limit": limit}
        return ToolUse(tool="Read", arguments=arguments)

    def glob(self, pattern: str) -> ToolUse:
        """List files of the library."""
        return ToolUse(tool="Glob", arguments={"pattern": pattern, "path": str(self.library)})

    def grep(self, pattern: str, folder: str) -> ToolUse:
        """Find lines in Python files of a folder of the library, or in one file."""
        where = str(self.library / folder)
        if self.has_ripgrep:
            arguments = {"pattern": pattern, "path": where, "output_mode": "content", "glob": "*.py"}
            return ToolUse(tool="Grep", arguments=arguments)
        return self.shell(f"grep -rnE '{pattern}' '{where}' --include='*.py' | head -250")

    def shell(self, command: str) -> ToolUse:
        """Run a command."""
        return ToolUse(tool="Bash", arguments={"command": command})

    def run(self, code: str, *, options: str = "") -> ToolUse:
        """Run Python code that has no double quote, isolated and without writing byte code."""
        return self.shell(f'"{self.python}" -I -B -X utf8{options} -c "{code}"')


def tell_story(hands: Hands, *, recall: ToolUse) -> Story:
    """Return the story as it goes on this machine.

    Args:
        hands: How the agent gets at the library.
        recall: How it looks for what left its context.
    """
    survey, more, question = requests(hands.library)
    return Story(
        turns=(
            Turn(
                request=survey,
                steps=tuple(_network(hands)),
                answer="The inventory is made and the network modules are surveyed. I have only read.",
            ),
            Turn(
                request=more,
                steps=tuple(_text(hands)),
                answer="Text, codecs and developers' tools are surveyed, too.",
            ),
            Turn(request=question, steps=(Step(what="look back", uses=(recall,)),), answer=None),
        ),
        expected=expected_answer(hands.library),
    )


def requests(library: Path) -> tuple[str, str, str]:
    """Return what the user says: two orders, the first with the rule for all, and the question."""
    survey = (
        f"You look after the Python installation in {library}. {CONSTRAINT} "
        "Begin with an inventory of its modules, a digest of each, then survey what has to do with the network."
    )
    more = "Good. Now go on with text, codecs and the tools for developers, in the same way."
    question = f"Back to the very beginning: how many lines has {ASKED_FILE} in your inventory, and which digest?"
    return survey, more, question


def recall_query() -> str:
    """Return what the agent searches for to answer the question."""
    return f"{ASKED_FILE} digest"


def expected_answer(library: Path) -> str:
    """Return the right answer, taken from the file itself."""
    content = (library / ASKED_FILE).read_bytes()
    return _answer(content.count(b"\n"), hashlib.sha256(content).hexdigest()[:DIGEST_CHARS])


def answer_from(texts: Iterable[str]) -> str:
    """Return what an agent can answer from the texts that it sees."""
    record = re.compile(rf'"file": "{re.escape(ASKED_FILE)}", "lines": (\d+), "digest": "([0-9a-f]{{{DIGEST_CHARS}}})"')
    for text in texts:
        if found := record.search(text):
            return _answer(int(found[1]), found[2])
    return "I no longer know."


def _answer(lines: int, digest: str) -> str:
    return f"{ASKED_FILE} has {lines} lines and the digest {digest}."


def _inventory(hands: Hands) -> ToolUse:
    code = (
        "import hashlib, json, pathlib; "
        f"files = sorted(pathlib.Path({str(hands.library)!r}).glob('*.py')); "
        "print(json.dumps([{'file': f.name, 'lines': f.read_bytes().count(b'\\n'), "
        f"'digest': hashlib.sha256(f.read_bytes()).hexdigest()[:{DIGEST_CHARS}]}} for f in files]))"
    )
    return hands.run(code)


def _characters(hands: Hands, codec: str, first: int, last: int) -> ToolUse:
    """Print the characters of a double-byte codec, a row of its table a line."""
    code = (
        f"rows = [''.join(bytes([row, cell]).decode('{codec}', 'ignore') for cell in range(0xa1, 0xff)) "
        f"for row in range({first:#x}, {last:#x})]; print(*rows, sep='\\n')"
    )
    return hands.run(code)


def _encoded(hands: Hands, name: str, how: str, size: int) -> ToolUse:
    """Print the beginning of a file in an encoding for bytes, compressed before so that it looks like any binary."""
    code = (
        f"import base64, pathlib, zlib; data = zlib.compress(pathlib.Path({str(hands.library / name)!r}).read_bytes()); "
        f"print(base64.{how}(data[:{size}]).decode())"
    )
    return hands.run(code)


def _import_log(hands: Hands, modules: str) -> ToolUse:
    """Print a long log of imports that ends in an error."""
    return hands.run(f"import {modules}", options=" -X importtime")


def _network(hands: Hands) -> Iterable[Step]:
    """Yield the steps of the first turn."""
    yield Step(what="make the inventory (JSON)", uses=(_inventory(hands),))
    yield Step(what="list all modules", uses=(hands.glob("**/*.py"),))
    yield Step(what="read http/client.py", uses=(hands.read("http/client.py"),))
    yield Step(what="find the exceptions of http", uses=(hands.grep("class .*(Error|Exception)", "http"),))
    yield Step(what="read socket.py", uses=(hands.read("socket.py", limit=400),))
    statuses = "import http, json; print(json.dumps([{'code': s, 'phrase': s.phrase, 'text': s.description} for s in http.HTTPStatus]))"
    yield Step(what="list the HTTP statuses (JSON)", uses=(hands.run(statuses),))
    yield Step(
        what="import asyncio with times (log)", uses=(_import_log(hands, "asyncio, http.server, no_such_module"),)
    )
    yield Step(
        what="list asyncio and read its events",
        uses=(hands.glob("asyncio/*.py"), hands.read("asyncio/events.py", limit=300)),
    )
    yield Step(what="find coroutines of asyncio", uses=(hands.grep("async def ", "asyncio"),))
    yield Step(what="read ssl.py", uses=(hands.read("ssl.py"),))
    yield Step(what="pack urllib/request.py (base64)", uses=(_encoded(hands, "urllib/request.py", "b64encode", 9000),))
    yield Step(what="read urllib/parse.py", uses=(hands.read("urllib/parse.py"),))
    table = (
        "import mimetypes; print('suffix,type'); "
        "print(*(f'{suffix},{kind}' for suffix, kind in sorted(mimetypes.types_map.items())), sep='\\n')"
    )
    yield Step(what="list the MIME types (CSV)", uses=(hands.run(table),))
    yield Step(what="read smtplib.py", uses=(hands.read("smtplib.py"),))
    yield Step(what="find timeouts", uses=(hands.grep("timeout", "http"), hands.grep("timeout", "urllib")))
    yield Step(what="read ftplib.py", uses=(hands.read("ftplib.py", limit=500),))
    ids = "import uuid; print(*(uuid.uuid5(uuid.NAMESPACE_DNS, f'host-{n}.example') for n in range(240)), sep='\\n')"
    yield Step(what="name 240 hosts (UUIDs)", uses=(hands.run(ids),))
    yield Step(what="read imaplib.py", uses=(hands.read("imaplib.py"),))
    yield Step(what="pack http/server.py (hex)", uses=(_encoded(hands, "http/server.py", "b16encode", 6000),))
    yield Step(what="read email/message.py", uses=(hands.read("email/message.py"),))
    yield Step(
        what="import the mail modules (log)", uses=(_import_log(hands, "email.mime.text, imaplib, no_such_mailer"),)
    )
    yield Step(what="read xmlrpc/client.py", uses=(hands.read("xmlrpc/client.py"),))


def _text(hands: Hands) -> Iterable[Step]:
    """Yield the steps of the second turn."""
    yield Step(what="list the codecs", uses=(hands.glob("encodings/*.py"),))
    yield Step(what="print GB 2312, first part (Chinese)", uses=(_characters(hands, "gb2312", 0xB0, 0xD0),))
    yield Step(what="read codecs.py", uses=(hands.read("codecs.py"),))
    yield Step(what="print EUC-JP (Japanese)", uses=(_characters(hands, "euc_jp", 0xA4, 0xC4),))
    yield Step(what="find the users of encodings", uses=(hands.grep("encoding=", "."),))
    yield Step(what="read textwrap.py", uses=(hands.read("textwrap.py"),))
    entities = "import html.entities, json; print(json.dumps(html.entities.name2codepoint, indent=1))"
    yield Step(what="list the HTML entities (JSON)", uses=(hands.run(entities),))
    yield Step(what="read argparse.py", uses=(hands.read("argparse.py"),))
    diff = (
        "import difflib, pathlib; "
        f"a, b = (pathlib.Path({str(hands.library)!r}, 'json', name).read_text().splitlines() for name in ('decoder.py', 'encoder.py')); "
        "print(*difflib.unified_diff(a, b, 'decoder.py', 'encoder.py', lineterm=''), sep='\\n')"
    )
    yield Step(what="compare decoder and encoder of json (diff)", uses=(hands.run(diff),))
    yield Step(what="read difflib.py", uses=(hands.read("difflib.py"),))
    yield Step(what="print EUC-KR (Korean)", uses=(_characters(hands, "euc_kr", 0xB0, 0xC9),))
    yield Step(what="read inspect.py", uses=(hands.read("inspect.py"),))
    yield Step(what="find what is deprecated", uses=(hands.grep("DeprecationWarning", "."),))
    yield Step(what="read doctest.py", uses=(hands.read("doctest.py"),))
    yield Step(what="pack pydoc.py (base64)", uses=(_encoded(hands, "pydoc.py", "b64encode", 12000),))
    yield Step(what="read ast.py", uses=(hands.read("ast.py"),))
    yield Step(what="import the test tools (log)", uses=(_import_log(hands, "unittest.mock, doctest, no_such_test"),))
    yield Step(what="read tarfile.py", uses=(hands.read("tarfile.py"),))
    yield Step(what="print GB 2312, second part (Chinese)", uses=(_characters(hands, "gb2312", 0xD0, 0xF8),))
    yield Step(what="read enum.py and csv.py", uses=(hands.read("enum.py", limit=250), hands.read("csv.py", limit=250)))
    yield Step(what="read subprocess.py", uses=(hands.read("subprocess.py"),))
    yield Step(what="find the abstract classes", uses=(hands.grep("ABCMeta|abstractmethod", "."),))
