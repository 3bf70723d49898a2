"""What a shell command line works on: its parts, the files that its plain programs touch, and what makes two runs the same."""

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

Operation = Literal["read", "created", "modified", "deleted"]

_PARSE_CHARS: Final = 4000
"""Longer lines are cut: parsing goes character by character, and takes about a millisecond for so many."""
_WORDS: Final = 8
_WORK_CHARS: Final = 200
_HEREDOC: Final = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n(.*?)(?:\n[ \t]*\2[ \t]*(?=\n|$)|\Z)", re.DOTALL)
_COMMENT: Final = re.compile(r"^\s*#[^\n]*$", re.MULTILINE)
_SIGNS: Final = "();<>|&\n"
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_PATH_LIKE: Final = re.compile(r"[\w.~@+\-/\[\]]*[\w\]/]", re.ASCII)
_PATTERN: Final = re.compile(r"[\w.~@+\-/*?]*", re.ASCII)
_PATH_CHARS: Final = 200
_PYTHON: Final = re.compile(r"(?:.*/)?python[\d.]*")
_OPENS: Final = re.compile(r"\bopen\(\s*r?['\"]([^'\"\n{%]{2,200})['\"](?:\s*,\s*['\"]([rwax])[^'\"]{0,2}['\"])?")
_WRITES: Final = re.compile(r"Path\(\s*['\"]([^'\"\n]{2,200})['\"]\s*\)\.write_(?:text|bytes)\(")
_REMOVES: Final = re.compile(r"\bos\.(?:remove|unlink)\(\s*['\"]([^'\"\n]{2,200})['\"]\s*\)")

READERS: Final = frozenset({"cat", "head", "tail", "less", "more", "nl", "wc", "bat", "open"})
"""Programs that print files."""
FILE_PROGRAMS: Final = READERS | {"cp", "mv", "rm", "sed", "perl", "tee", "touch", "patch", "create"}
"""Programs that work on the files that they name."""
ANY: Final = "*"
"""Stands for the words of a line that cannot be told apart."""
_WRAPPERS: Final = frozenset(
    {"sudo", "time", "timeout", "nohup", "env", "command", "exec", "xargs", "then", "do", "else"}
)
_SILENT: Final = frozenset(
    {"cd", "export", "source", ".", "set", "echo", "printf", "sleep", "true", "pwd", "pushd", "popd"}
)
"""Programs that are never what a command line is run for where it has another."""
_SEARCHES: Final = frozenset(
    {"grep", "egrep", "fgrep", "rg", "ag", "ack", "find", "ls", "which", "type", "test", "[", "diff", "cmp", "git diff"}
    | {"git grep", "pgrep"}
)
_ASKS: Final = frozenset({"--version", "--help", "-V"})
_SUBCOMMANDS: Final = frozenset(
    {"git", "npm", "yarn", "pnpm", "cargo", "go", "docker", "kubectl", "pip", "uv", "poetry", "conda", "apt-get", "gh"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One plain command of a line."""

    words: tuple[str, ...]
    """Program and arguments, quotes resolved, without assignments and redirections."""
    targets: tuple[tuple[str, bool], ...] = ()
    """Files that its output goes to, and whether it is added to what they hold."""
    folder: str = ""
    """Where it runs, as far as the line says."""
    is_piped: bool = False
    """Whether it reads what another one says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a command is run for; one that works on the same, or on more, shows that an error of it is over."""

    program: str
    words: tuple[str, ...] = ()
    """Arguments without options."""
    is_piped: bool = False
    """Whether another program takes what it says, and with it the exit code of the line."""

    def covers(self, other: "Work") -> bool:
        """Return whether a run of this one does all that the other does: the same words, or fewer, or wider ones."""
        if self.program != other.program:
            return False
        return other.words == (ANY,) or all(
            any(_is_within(theirs, mine) for theirs in other.words) for mine in self.words
        )


def _is_within(part: str, whole: str) -> bool:
    """Whether a word names the same as another, or a part of it: a file in a folder, a test in a file."""
    if part == whole or part.endswith(f"/{whole}") or whole.endswith(f"/{part}"):
        return True
    return part.startswith((f"{whole.rstrip('/')}/", f"{whole}::"))


def parts_of(command: str) -> list[Part]:
    """Return the plain commands of a line, in order; none where the line cannot be told apart without a shell."""
    line = _HEREDOC.sub(lambda found: f" {found[3]}", command[: 8 * _PARSE_CHARS])
    line = _COMMENT.sub("", line.replace("\\\n", " "))[:_PARSE_CHARS]
    lexer = shlex.shlex(line, posix=True, punctuation_chars=_SIGNS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        tokens = list(lexer)
    except ValueError:
        return []
    return list(_split(tokens))


def _split(tokens: Sequence[str]) -> Iterator[Part]:
    """Yield the parts that lie between the operators."""
    words: list[str] = []
    targets: list[tuple[str, bool]] = []
    folder, is_piped, redirect = "", False, ""
    for token in [*tokens, ";"]:
        is_sign = bool(token) and all(character in _SIGNS for character in token)
        if redirect:
            if ">" in redirect and not is_sign and not redirect.endswith(">&"):
                targets.append((token, ">>" in redirect))
            redirect = ""
            if not is_sign:
                continue
        if not is_sign:
            words.append(token)
        elif "<" in token or ">" in token:
            if words and words[-1] in {"1", "2"} and ">" in token:
                words.pop()
            redirect = token
        else:
            words = _plain(words)
            if words or targets:
                yield Part(words=tuple(words), targets=tuple(targets), folder=folder, is_piped=is_piped)
            if len(words) == 2 and words[0] == "cd":  # noqa: PLR2004 - the program and where to
                folder = posixpath.join(folder, words[1])
            words, targets, is_piped = [], [], token.strip() == "|"


def _plain(words: list[str]) -> list[str]:
    """Leave out assignments and programs that only run another."""
    words = list(words)
    while words and (_ASSIGNMENT.fullmatch(words[0]) or words[0] in _WRAPPERS):
        wrapper = words.pop(0)
        while wrapper in _WRAPPERS and words and (words[0].startswith("-") or words[0].rstrip("smh").isdigit()):
            words.pop(0)
    return words


def files_of(command: str) -> list[tuple[str, Operation, bool]]:
    """Return the files that a line touches, in order: path, what is done to it, and whether even where the line fails.

    Only what plain programs do is told; what happens before the last part is taken to have happened although the line
    failed, for that part is the one that most often does.
    """
    parts = parts_of(command)
    last = max((number for number, part in enumerate(parts) if not part.is_piped), default=0)
    found = [
        (_in_folder(path, part.folder), operation, number < last)
        for number, part in enumerate(parts)
        for path, operation in _files_of_part(part)
    ]
    if any(part.words and _PYTHON.fullmatch(part.words[0]) for part in parts):
        found += _files_of_script(command[: 8 * _PARSE_CHARS])
    return found


def _files_of_script(text: str) -> Iterator[tuple[str, Operation, bool]]:
    """Yield the files that a script opens by name in the line that runs it."""
    for path, mode in _OPENS.findall(text):
        yield path, "read" if mode in {"", "r"} else "modified" if mode == "a" else "created", False
    for path in _WRITES.findall(text):
        yield path, "created", False
    for path in _REMOVES.findall(text):
        yield path, "deleted", False


def _in_folder(path: str, folder: str) -> str:
    if not folder.startswith(("/", "~")) or path.startswith(("/", "~")):
        return path
    return posixpath.normpath(posixpath.join(folder, path))


def _files_of_part(part: Part) -> Iterator[tuple[str, Operation]]:
    if part.words:
        yield from _by_program(part.words[0].rpartition("/")[2], part.words[1:])
    for path, is_added in part.targets:
        if not path.startswith("/dev/") and _is_path(path):
            yield path, "modified" if is_added else "created"


def _by_program(program: str, words: Sequence[str]) -> Iterator[tuple[str, Operation]]:
    """Yield the files that a program touches by its arguments."""
    if program == "git" and words[:1] and words[0] in {"rm", "mv"}:
        program, words = words[0], words[1:]
    options = [word for word in words if word.startswith("-")]
    paths = [word for word in words if _is_path(word)]
    if program in {"sed", "perl"}:
        in_place = any(re.match(r"-[a-zA-Z]*i", word) for word in options)
        plain = [word for word in words if not word.startswith("-")]
        scripted = any(word in {"-e", "-f"} for word in options)
        yield from (
            (path, "modified" if in_place else "read") for path in (plain if scripted else plain[1:]) if _is_file(path)
        )
    elif program in READERS:
        yield from ((path, "read") for path in paths if _is_file(path))
    elif program in {"rm", "unlink"}:
        yield from ((w, "deleted") for w in words if not w.startswith("-") and len(w) > 1 and _PATTERN.fullmatch(w))
    elif program in {"touch", "create"}:
        yield from ((path, "created") for path in paths)
    elif program == "tee":
        yield from ((path, "modified" if "-a" in options else "created") for path in paths)
    elif program in {"cp", "mv"} and len(paths) > 1:
        yield from _moved(paths[:-1], paths[-1], is_move=program == "mv")
    elif program == "git" and words[:1] and words[0] in {"checkout", "restore"} and len(paths) > 1:
        yield from ((path, "modified") for path in paths[1:] if "." in path.rpartition("/")[2])


def _moved(sources: Sequence[str], target: str, *, is_move: bool) -> Iterator[tuple[str, Operation]]:
    """Yield what becomes of files that are copied or moved: into a folder where the target is one."""
    for source in sources:
        name = source.rstrip("/").rpartition("/")[2]
        is_folder = (
            target.endswith("/") or len(sources) > 1 or target in {".", ".."} or ("." in name and "." not in target)
        )
        yield source, "deleted" if is_move else "read"
        yield (posixpath.join(target, name) if is_folder else target), "created"


def _is_file(word: str) -> bool:
    return _is_path(word) and ("/" in word or "." in word)


def _is_path(word: str) -> bool:
    return (
        1 < len(word) <= _PATH_CHARS
        and not word.startswith(("-", "+"))
        and _PATH_LIKE.fullmatch(word) is not None
        and re.search(r"[A-Za-z]", word) is not None
    )


def works_of(command: str) -> tuple[Work, ...]:
    """Return what a line is run for, its parts in order, without those that only prepare it; of a pipe, what it begins with.

    A pipe that ends in a search is one: its exit code is that of the search.
    """
    works: list[Work] = []
    for part in parts_of(command):
        if not part.words or not _ASKS.isdisjoint(part.words):
            continue
        work = _work_of(part.words, part.folder)
        if not part.is_piped:
            works.append(work)
        elif is_question(work) and works:
            works[-1] = work
        elif works and "pipefail" not in command:
            works[-1] = replace(works[-1], is_piped=True)
    telling = [work for work in works if work.program not in _SILENT]
    first = next(iter(command.split()), "")
    return tuple(telling or works) or (Work(program=first, words=(ANY,)),)


def is_question(work: Work) -> bool:
    """Whether a program's exit code answers a question, and tells of no error."""
    return work.program in _SEARCHES


def _work_of(words: Sequence[str], folder: str) -> Work:
    """Return a command's program and what it works on."""
    program, rest = words[0].rpartition("/")[2] if "python" in words[0] else words[0], list(words[1:])
    if _PYTHON.fullmatch(program):
        program = "python"
        if "-m" in rest[:3] and len(rest) > rest.index("-m") + 1:
            program, rest = rest[rest.index("-m") + 1], rest[rest.index("-m") + 2 :]
        elif "-c" in rest[:3] or not rest or rest[0] == "-":
            return Work(program="python -c")
    elif program in {"py.test", "pytest"}:
        program = "pytest"
    elif program in _SUBCOMMANDS and rest and not rest[0].startswith("-"):
        program = f"{program} {rest.pop(0)}"
    targets = [
        _in_folder(word, folder) if word.startswith("../") else word for word in rest if not word.startswith("-")
    ]
    return Work(program=program, words=tuple(word[:_WORK_CHARS] for word in targets[:_WORDS]))
