"""What is run on ctxkit, and how: `nox` runs the default sessions, `nox -l` lists all.

It needs Python 3.11 or later and either pip or uv. Sessions that need AgentScope share one environment (`env`), for
one costs about 40 seconds and 325 MB. The built wheel is what is tested: `PYTHONSAFEPATH` keeps the checkout out of
the path.
"""

from __future__ import annotations

import sys

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["lint", "types", "tests", "examples", "minimums"]

PYPROJECT = nox.project.load_toml("pyproject.toml")
HOSTS = ["2.0.6", "2.0.8"]
"""Versions of AgentScope at which its surface grew; the newest that installs is that of `tests`."""

WHEEL_ONLY = {"PYTHONSAFEPATH": "1"}
QUICK = ("-m", "not crash and not slow", "--ignore=tests/examples")
"""Arguments of pytest for all tests but those that have sessions of their own."""
FIT = (*QUICK, "--ignore=tests/durability")
"""Those that other versions of what ctxkit stands on may break: files are written without any of it."""
TWO = ("-n", "2", "--dist", "loadfile")
"""Arguments of pytest for two processes side by side, each file in one of them: it halves the time on two cores."""


def group(*names: str) -> list[str]:
    """Return the requirements of dependency groups; pip reads groups only from 25.1 on."""
    return list(nox.project.dependency_groups(PYPROJECT, *names))


def shared(session: nox.Session, program: str) -> str:
    """Return the path of a program in the environment that session `env` made."""
    scripts = "Scripts" if sys.platform == "win32" else "bin"
    return str(session.cache_dir.parent / "env" / scripts / program)


def run_shared(session: nox.Session, program: str, *args: str, env: dict[str, str] | None = None) -> None:
    """Run a program of the shared environment."""
    session.run(shared(session, program), *args, env={**WHEEL_ONLY, **(env or {})}, external=True)


@nox.session(reuse_venv=True, default=False)
def env(session: nox.Session) -> None:
    """Build the wheel and install it with the newest AgentScope; other sessions ask for this one."""
    session.install(*group("tests", "types", "bench", "service"), ".")


@nox.session(reuse_venv=True)
def lint(session: nox.Session) -> None:
    """Check form, docstrings, layers, spelling and project files."""
    session.install(*group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-logo")
    session.run("codespell")
    session.run("validate-pyproject", "pyproject.toml")


@nox.session(venv_backend="none", requires=["env"])
def types(session: nox.Session) -> None:
    """Check the package with mypy and the public names, as a user's code sees them, with pyright."""
    python = shared(session, "python")
    run_shared(session, "mypy", f"--python-executable={python}")
    run_shared(session, "mypy", f"--python-executable={python}", "tests/typing/api.py")
    run_shared(session, "pyright", f"--pythonpath={python}")


@nox.session(venv_backend="none", requires=["env"])
def tests(session: nox.Session) -> None:
    """Run the tests against the newest AgentScope, with a report of what they cover."""
    covered = ("--cov", "--cov-report=term-missing:skip-covered")
    run_shared(session, "pytest", *covered, *(session.posargs or (*TWO, *QUICK)))
    if not session.posargs:
        # What measures time is run without the tracer, which slows everything down.
        run_shared(session, "pytest", "-m", "slow and not crash", "--ignore=tests/examples")


@nox.session(venv_backend="none", requires=["env"])
def examples(session: nox.Session) -> None:
    """Run every example."""
    run_shared(session, "pytest", "tests/examples", *session.posargs)


@nox.session(reuse_venv=True)
def minimums(session: nox.Session) -> None:
    """Run the tests with the oldest version of everything that pyproject.toml names."""
    if session.venv_backend != "uv":
        session.install("uv>=0.5")
    session.run_install("uv", "pip", "install", "--upgrade", "--resolution=lowest-direct", *group("tests"), ".")
    session.run("pytest", *(session.posargs or (*TWO, *FIT)), env=WHEEL_ONLY)


@nox.session(reuse_venv=True, default=False)
@nox.parametrize("agentscope", HOSTS)
def hosts(session: nox.Session, agentscope: str) -> None:
    """Run the tests against each older AgentScope at which the surface that ctxkit uses has grown."""
    session.install(*group("tests"), ".", f"agentscope=={agentscope}")
    session.run("pytest", *(session.posargs or (*TWO, *FIT)), env=WHEEL_ONLY)


@nox.session(venv_backend="none", requires=["env"], default=False)
def crash(session: nox.Session) -> None:
    """Kill processes, cut the power of file systems and let system calls fail, thousands of times: `-- --short` for fewer.

    Some of it needs root and Linux; what cannot run is skipped, and says so.
    """
    args = [argument for argument in session.posargs if argument != "--short"]
    volume = {} if "--short" in session.posargs else {"CTXKIT_CRASH_FULL": "1"}
    run_shared(session, "pytest", "-m", "crash", *args, env=volume)


@nox.session(venv_backend="none", requires=["env"], default=False)
def search(session: nox.Session) -> None:
    """Seek new examples that break a generated test, thirty times as many as CI looks at; name files to seek there.

    CI looks at the same ones each time; an example that is found here becomes an `@example` of its test.
    """
    more = {"CTXKIT_EXAMPLES": "30"}
    run_shared(session, "pytest", "-m", "hypothesis and not crash", *session.posargs, env=more)


@nox.session(reuse_venv=True, default=False)
def docs(session: nox.Session) -> None:
    """Build the documentation; a dead link, name or snippet fails."""
    session.install(*group("docs"))
    # A warm rebuild may miss dead references.
    session.run("zensical", "build", "--strict", "--clean")


@nox.session(venv_backend="none", requires=["env"], default=False)
def benchmarks(session: nox.Session) -> None:
    """Run the benchmarks beside AgentScope's built-in: `nox -s benchmarks -- --seeds 3`."""
    # They are modules of the checkout, and so is the ctxkit that they measure.
    run_shared(session, "python", "-m", "benchmarks", *session.posargs, env={"PYTHONSAFEPATH": ""})
