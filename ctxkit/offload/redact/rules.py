"""The rules for secrets that have a shape: what each begins with, and what follows.

A rule is looked for by its literals, which costs little where there are none, and only there its pattern is tried. Each
pattern is a run of one class of characters behind what is fixed, so that its time grows with the text and no faster.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ctxkit.errors import ConfigError

MARK: Final = "[REDACTED:"
"""How every replacement begins; what begins so is never replaced again."""

_QUOTE: Final = r"\\{0,3}[\"']"
"""A quotation mark, as it stands or escaped in JSON (once or in JSON within JSON)."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One kind of secret.

    Args:
        kind: Its name, which stands in the replacement and in the counts: lower-case letters, digits and `-`.
        literals: What it begins with, one of them; no quotation marks, backslashes and control characters, so that they
            stand in JSON as they are.
        pattern: A regular expression that matches from there on; where it has groups, only the one that took part is
            replaced. It must match every beginning of a secret from some length on, for it is tried on a part first.
        any_case: The literals and the pattern are lower-case, and stand for any case.
        is_alone: No letter, digit or `_` may stand before it.
        check: Tells whether what was found is a secret after all.

    Raises:
        ConfigError: A kind or literal that cannot be used.
    """

    kind: str
    literals: tuple[str, ...]
    pattern: str
    any_case: bool = False
    is_alone: bool = True
    check: Callable[[str], bool] | None = None

    def __post_init__(self) -> None:
        plain = all(literal and json.dumps(literal) == f'"{literal}"' for literal in self.literals)
        if not re.fullmatch(r"[a-z0-9-]{1,40}", self.kind) or not self.literals or not plain:
            msg = (
                f"Rule {self.kind!r} with literals {self.literals!r}: give a kind like 'my-token', and what it begins with, "
                "in plain ASCII without quotes and backslashes."
            )
            raise ConfigError(msg)


def is_mixed(text: str) -> bool:
    """Whether there are both letters and digits in a text; words and plain numbers are no keys."""
    return any(char.isdigit() for char in text) and any(char.isalpha() for char in text)


_STAND_IN: Final = re.compile(
    r"[<{$%/~.*]|https?:|xxx|example|placeholder|change-?me|your|my-?(?:pass|secret|token)|none$|null$|true$|false$"
    r"|(?:password|passwd|pass|pwd|secret|token)\d{0,1}$",
    re.IGNORECASE,
)
"""Beginnings of what documents and templates write in place of a secret."""
_NAME: Final = re.compile(r"[A-Za-z_]+\d{0,2}(?:[._:-]{1,2}[A-Za-z_]+\d{0,2})*[.:]?")
"""A name of code, such as `cfg2.token_v2`."""
_SPECIAL: Final = frozenset("!@#$%^&*+?=~")


def is_value(text: str) -> bool:
    """Whether a text that stands behind `token=` may be one: letters and digits, no name of code, no stand-in."""
    return MARK not in text and is_mixed(text) and _NAME.fullmatch(text) is None and _STAND_IN.match(text) is None


def is_password(text: str) -> bool:
    """Whether a text that stands behind `password=` may be one: as `is_value`, or with a special character in it."""
    if MARK in text or _STAND_IN.match(text) is not None:
        return False
    return is_value(text) or (not _SPECIAL.isdisjoint(text) and any(char.isalpha() for char in text))


def is_url_password(text: str) -> bool:
    """Whether a text between `://user:` and `@` is a password, not a stand-in for one."""
    return MARK not in text and _STAND_IN.match(text) is None


def is_web_token(text: str) -> bool:
    """Whether a text has the parts of a JSON web token."""
    return text.count(".") >= 2  # noqa: PLR2004 - header, payload and signature


_NAME_ENDS: Final = r"s?(?:[_-]?(?:key|value|hash|data|prod|production|dev|staging|test|live|[0-9]{1,3}))?"
_ASSIGNED: Final = r"\\{0,3}[\"']?\]?[ \t]{0,4}(?::=|=>|={1,3}|:)[ \t]{0,4}"


def _value(least: int) -> str:
    """Return the pattern of what is assigned: in quotes up to the next one, else up to what ends a value."""
    quoted = rf"{_QUOTE}([^\"'\s\\]{{{least},}})"
    bare = rf"([^\s\"'\\,;&()\[\]{{}}<>$|`=\u2000-\u206f\u3000-\U0010ffff]{{{least},}}={{0,2}})"
    return f"(?:{quoted}|{bare})"


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        kind="private-key",
        literals=("-----BEGIN ",),
        pattern=r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
        is_alone=False,
    ),
    Rule(kind="private-key", literals=("AGE-SECRET-KEY-1",), pattern=r"AGE-SECRET-KEY-1[A-Z0-9]{40,}"),
    Rule(kind="anthropic-key", literals=("sk-ant-",), pattern=r"sk-ant-[A-Za-z0-9_-]{20,}"),
    Rule(
        kind="openai-key",
        literals=("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-"),
        pattern=r"sk-(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{20,}",
    ),
    Rule(kind="openai-key", literals=("sk-",), pattern=r"sk-[A-Za-z0-9]{20,}", check=is_mixed),
    Rule(kind="aws-access-key", literals=("AKIA", "ASIA"), pattern=r"A[KS]IA[A-Z0-9]{16,}"),
    Rule(
        kind="aws-secret-key",
        literals=("secret_access_key", "secretaccesskey", "secret-access-key", "secret access key", "aws_secret_key"),
        pattern=r"(?:aws_secret_key|secret[_ -]?access[_ -]?key)[ \t:=>|\"'\\]{1,12}([a-z0-9/+]{40,})",
        any_case=True,
        is_alone=False,
        check=is_mixed,
    ),
    Rule(kind="github-token", literals=("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), pattern=r"gh[pousr]_[A-Za-z0-9]{36,}"),
    Rule(kind="github-token", literals=("github_pat_",), pattern=r"github_pat_[A-Za-z0-9_]{22,}"),
    Rule(kind="gitlab-token", literals=("glpat-", "gldt-", "glrt-"), pattern=r"gl(?:pat|dt|rt)-[A-Za-z0-9_.-]{20,}"),
    Rule(kind="google-key", literals=("AIza",), pattern=r"AIza[A-Za-z0-9_-]{35,}"),
    Rule(kind="google-key", literals=("GOCSPX-",), pattern=r"GOCSPX-[A-Za-z0-9_-]{24,}"),
    Rule(kind="google-key", literals=("ya29.",), pattern=r"ya29\.[A-Za-z0-9_-]{20,}"),
    Rule(kind="slack-token", literals=("xox",), pattern=r"xox[abeoprs]-[A-Za-z0-9.-]{10,}", check=is_mixed),
    Rule(kind="slack-token", literals=("xapp-",), pattern=r"xapp-[A-Za-z0-9-]{20,}", check=is_mixed),
    Rule(kind="webhook", literals=("hooks.slack.com/",), pattern=r"hooks\.slack\.com/([A-Za-z0-9/_-]{20,})"),
    Rule(kind="webhook", literals=("/api/webhooks/",), pattern=r"/api/webhooks/([A-Za-z0-9/_-]{40,})", is_alone=False),
    Rule(
        kind="stripe-key",
        literals=("sk_live_", "sk_test_", "rk_live_", "rk_test_"),
        pattern=r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    ),
    Rule(kind="stripe-key", literals=("whsec_",), pattern=r"whsec_[A-Za-z0-9+/=]{24,}"),
    Rule(kind="npm-token", literals=("npm_",), pattern=r"npm_[A-Za-z0-9]{36,}"),
    Rule(kind="pypi-token", literals=("pypi-",), pattern=r"pypi-[A-Za-z0-9_-]{50,}", check=is_mixed),
    Rule(kind="huggingface-token", literals=("hf_",), pattern=r"hf_[A-Za-z0-9]{30,}"),
    Rule(kind="sendgrid-key", literals=("SG.",), pattern=r"SG\.[A-Za-z0-9_.-]{50,}", check=is_mixed),
    Rule(kind="digitalocean-token", literals=("dop_v1_", "doo_v1_", "dor_v1_"), pattern=r"do[por]_v1_[a-f0-9]{40,}"),
    Rule(kind="shopify-token", literals=("shpat_", "shpss_", "shpca_"), pattern=r"shp(?:at|ss|ca)_[A-Fa-f0-9]{32,}"),
    Rule(kind="vault-token", literals=("hvs.", "hvb."), pattern=r"hv[sb]\.[A-Za-z0-9_-]{24,}", check=is_mixed),
    Rule(kind="docker-token", literals=("dckr_pat_",), pattern=r"dckr_pat_[A-Za-z0-9_-]{20,}"),
    Rule(kind="groq-key", literals=("gsk_",), pattern=r"gsk_[A-Za-z0-9]{40,}"),
    Rule(kind="xai-key", literals=("xai-",), pattern=r"xai-[A-Za-z0-9]{40,}"),
    Rule(kind="web-token", literals=("eyJ",), pattern=r"eyJ[A-Za-z0-9_.-]{20,}", check=is_web_token),
    Rule(
        kind="azure-key",
        literals=("accountkey=", "sharedaccesskey="),
        pattern=r"(?:accountkey|sharedaccesskey)=([a-z0-9+/]{32,}={0,2})",
        any_case=True,
        is_alone=False,
    ),
    Rule(kind="azure-key", literals=("sig=",), pattern=r"sig=([a-z0-9%/+]{40,}={0,2})", any_case=True, check=is_mixed),
    Rule(
        kind="authorization",
        literals=("bearer",),
        pattern=r"bearer[ \t]{1,4}([a-z0-9._~+/-]{16,}={0,2})",
        any_case=True,
        check=is_value,
    ),
    Rule(
        kind="authorization",
        literals=("authorization",),
        pattern=rf"authorization{_ASSIGNED}(?:{_QUOTE})?(?:basic|token|apikey)[ \t]{{1,4}}([a-z0-9._~+/-]{{12,}}={{0,2}})",
        any_case=True,
        is_alone=False,
    ),
    Rule(
        kind="url-password",
        literals=("://",),
        pattern=r"://[^\s:/@\"'<>\\]{0,100}:([^\s/@\"'<>\\]{3,200})@",
        is_alone=False,
        check=is_url_password,
    ),
    Rule(
        kind="password",
        literals=("password", "passwd", "passphrase", "pwd"),
        pattern=rf"(?:password|passwd|passphrase|pwd){_NAME_ENDS}{_ASSIGNED}{_value(8)}",
        any_case=True,
        is_alone=False,
        check=is_password,
    ),
    Rule(
        kind="token",
        literals=(
            "secret",
            "token",
            "api_key",
            "api-key",
            "apikey",
            "access_key",
            "access-key",
            "accesskey",
            "auth_key",
            "private_key",
            "signing_key",
            "encryption_key",
            "credential",
        ),
        pattern=r"(?:secret|token|api[_-]?key|access[_-]?key|auth_key|private_key|signing_key|encryption_key|credential)"
        rf"{_NAME_ENDS}{_ASSIGNED}{_value(12)}",
        any_case=True,
        is_alone=False,
        check=is_value,
    ),
)
"""The built-in rules, the more telling first: where two find the same, the first names it."""
