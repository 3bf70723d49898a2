"""A summary held against its sources: marked, corrected, completed, and refused where most of it is invented."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ctxkit.ledger import Count
from ctxkit.summary.verify.claims import RECORD, Claim, first_mentions, mentions_in
from ctxkit.summary.verify.instructions import with_reports
from ctxkit.summary.verify.invented import MOST_MARKS, is_marked, with_marks
from ctxkit.summary.verify.kept import Fact, with_facts
from ctxkit.summary.verify.numbers import keyed_claims, numbers_against
from ctxkit.summary.verify.rivals import rivals_of
from ctxkit.summary.verify.sources import Sources
from ctxkit.summary.verify.status import with_status

_INVENTED_SHARE: Final = 0.5
_LEAST_INVENTED: Final = 4
"""Fewer inventions are marked, whatever their share: a short summary may name but three things."""
_NAMED: Final = 8


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What a summary looks like after it was checked."""

    fields: Mapping[str, Any]
    """The fields, corrected; those that were given where it is not usable."""
    added: tuple[str, ...] = ()
    """Facts that were missing and are added."""
    unverified: tuple[str, ...] = ()
    """Names, ids, numbers and versions that stand in no source."""
    corrected: tuple[str, ...] = ()
    """What the record shows where the summary says otherwise."""
    reported: tuple[str, ...] = ()
    """Instructions that a tool's result said first."""
    claims: int = 0
    """How many paths, ids, numbers and versions were looked for."""
    problems: tuple[str, ...] = ()
    """Why it is not usable, one line each."""

    @property
    def is_usable(self) -> bool:
        """Whether the fields may stand for what they summarise."""
        return not self.problems


async def verify_fields(
    fields: Mapping[str, Any], sources: Sources, facts: Sequence[Fact] = (), *, room_tokens: int, count: Count
) -> Verified:
    """Check a summary against its sources without a model, and return it marked, corrected and completed.

    The same summary and sources always give the same result. Where more than half of what it names, and at least four
    things, stand in no source, it is not usable and left as it is.

    Args:
        fields: The summary; its texts and lists of texts are looked at.
        sources: Everything that it may have its facts from.
        facts: What it must keep, the most important first.
        room_tokens: Most tokens that the facts may add.
        count: Returns the tokens of a text.
    """
    found = {text: _open_claims(text) for text in _texts(fields)}
    named = first_mentions(claim for claims in found.values() for claim in claims)
    unknown = await sources.unknown(named)
    if len(unknown) >= _LEAST_INVENTED and len(unknown) > _INVENTED_SHARE * len(named):
        names = ", ".join(repr(claim.text) for claim in unknown[:_NAMED])
        why = f"{len(unknown)} of the {len(named)} names and numbers in it stand nowhere in the conversation: {names}."
        return Verified(fields=fields, claims=len(named), unverified=_said(unknown), problems=(why,))
    keyed = {claim: key for text, claims in found.items() for claim, key in keyed_claims(text, claims).items()}
    missing = {claim.text for claim in unknown}
    numbers = {
        text: [claim for claim in claims if claim.kind in {"number", "version"} and claim.text not in missing]
        for text, claims in found.items()
    }
    wrong = {**await rivals_of(numbers, sources), **await numbers_against(keyed, sources)}
    invented = {claim.text for claim in unknown[:MOST_MARKS]}
    about = "\n".join(found)
    changed: dict[str, str] = {}
    corrected: list[str] = []
    reported: list[str] = []
    for text, claims in found.items():
        shows = {claim: f"{RECORD}{wrong[claim]}]" for claim in claims if claim in wrong}
        marked = with_marks(text, [claim for claim in first_mentions(claims) if claim.text in invented], shows)
        marked, shown = with_status(marked, sources.ledger, about=about)
        changed[text], told = await with_reports(marked, sources)
        corrected += [*(wrong[claim] for claim in claims if claim in wrong), *shown]
        reported += told
    checked = {name: _replaced(value, changed.__getitem__) for name, value in fields.items()}
    checked, added = await with_facts(checked, facts, room_tokens=room_tokens, count=count)
    return Verified(
        fields=checked,
        added=tuple(added),
        unverified=_said(unknown),
        corrected=tuple(corrected),
        reported=tuple(reported),
        claims=len(named),
    )


def _open_claims(text: str) -> list[Claim]:
    """Return what a text claims, each mention, without what an earlier check has marked."""
    mentions = mentions_in(text)
    done = {claim.text for claim in mentions if is_marked(text, claim)}
    return [claim for claim in mentions if claim.text not in done]


def _said(claims: Sequence[Claim]) -> tuple[str, ...]:
    return tuple(claim.text for claim in claims)


def _texts(fields: Mapping[str, Any]) -> list[str]:
    lists = (value if isinstance(value, list) else [value] for value in fields.values())
    return list(dict.fromkeys(text for values in lists for text in values if isinstance(text, str)))


def _replaced(value: object, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [change(item) if isinstance(item, str) else item for item in value]
    return value
