"""`ctxkit repair`: mends the files of sessions, and shows what was found and where the originals are."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from ctxkit.port import Codec
    from ctxkit.sessions.repair import FileReport

_COLOURS: Final = {"sound": "green", "repaired": "yellow", "repairable": "yellow", "failed": "red"}
_WORDS: Final = {
    "sound": "nothing to do",
    "repaired": "repaired",
    "repairable": "would be repaired",
    "failed": "not repaired",
}
_SHOWN: Final = 5
"""Findings of one file that are shown; all of them stand in no table."""


def repair(
    path: Annotated[Path, typer.Argument(exists=True, help="A session's file, or a folder with such files.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is wrong and write nothing.")] = False,
) -> None:
    """Repair the files of sessions: transcripts, saved states and the logs of stores.

    Nothing is lost: what is dropped is stored beside the file first, and the original is kept. A session that is in use
    and a format that is newer than this ctxkit are left alone.

    The exit code is 0 if all is well now (in a dry run: if all could be repaired), and 1 if something could not be.
    """
    from rich.console import Console  # noqa: PLC0415 - `ctxkit --help` is to be quick

    from ctxkit.host._codec import HostCodec  # noqa: PLC0415 - imports AgentScope, which takes seconds

    console = Console(highlight=False)
    reports = list(_reports(path, HostCodec(), dry_run=dry_run))
    shown = [report for report in reports if report.outcome != "sound"]
    if shown:
        console.print(_table(shown, path))
    failed = sum(report.outcome == "failed" for report in reports)
    mended = len(shown) - failed
    console.print(
        f"{len(reports)} files looked at, {mended} {'to repair' if dry_run else 'repaired'}, {failed} not repairable."
    )
    raise typer.Exit(1 if failed else 0)


def _reports(path: Path, codec: "Codec", *, dry_run: bool) -> "Iterator[FileReport]":
    """Repair a file, or each file of a folder, and yield what came of it."""
    from ctxkit.errors import CtxkitError  # noqa: PLC0415 - as above
    from ctxkit.sessions.repair import FileReport, repair_file, session_files  # noqa: PLC0415 - as above

    is_folder = path.is_dir() and not path.is_symlink()
    for file in session_files(path) if is_folder else [path]:
        try:
            report = repair_file(file, codec=codec, dry_run=dry_run)
        except CtxkitError as exc:
            report = FileReport(path=file, kind="other", outcome="failed", findings=(str(exc),))
        else:
            if report.kind == "other":
                if is_folder:
                    continue  # a folder may hold anything
                said = report.findings or ("no transcript, state or log of a session",)
                report = FileReport(path=file, kind="other", outcome="failed", findings=said)
        yield report


def _table(reports: "list[FileReport]", root: Path) -> "Table":
    from rich.markup import escape  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above

    table = Table("file", "is", "what was found", "outcome", show_lines=True)
    base = root if root.is_dir() else root.parent
    for report in reports:
        findings = list(report.findings[:_SHOWN])
        if len(report.findings) > _SHOWN:
            findings.append(f"and {len(report.findings) - _SHOWN} more")
        kept = [f"original: {report.backup.name}"] if report.backup else []
        kept += [f"dropped: {dropped.name}" for dropped in report.dropped]
        outcome = f"[{_COLOURS[report.outcome]}]{_WORDS[report.outcome]}[/]"
        table.add_row(
            escape(_relative(report.path, base)),
            report.kind,
            escape(_printable("\n".join(findings))),
            "\n".join([outcome, *(escape(name) for name in kept)]),
        )
    return table


def _relative(path: Path, base: Path) -> str:
    path = Path(path).absolute()
    base = base.absolute()
    return _printable(str(path.relative_to(base)) if path.is_relative_to(base) else str(path))


def _printable(text: str) -> str:
    """Return a text without what would steer a terminal: ids and names come from files that may be anybody's."""
    return "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text)
