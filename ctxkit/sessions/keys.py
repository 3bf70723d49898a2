"""Session keys: the route of a conversation in one text, and the history limit that its channel sets for it.

    agent:{agentId}:{provider}:{kind}:{userId}[:thread:{id}][:topic:{id}]

A key may be a session id as it stands, `AgentState(session_id=str(key))`: stores encode ids for their file names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self, cast, get_args

from ctxkit.errors import ConfigError

Kind = Literal["dm", "direct", "channel", "group"]
"""Whom a session talks with: one person (`dm`, `direct`), or many (`channel`, `group`)."""

_FIRST: Final = "agent"
_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_SUFFIXES: Final = ("thread", "topic")
_LAYOUT: Final = "agent:{agentId}:{provider}:{kind}:{userId}[:thread:{id}][:topic:{id}]"
_MOST_CHARS: Final = 1024
"""A longer text is no key; those of real channels have less than a tenth of it."""


@dataclass(frozen=True, kw_only=True)
class SessionKey:
    """The route of a conversation; `str(key)` is the key as text, and `SessionKey.parse` reads it again.

    Raises:
        ConfigError: A part that would not come back from the text as it was.
    """

    agent_id: str
    """Which agent owns the session."""
    provider: str
    """The channel: discord, whatsapp, telegram."""
    kind: Kind
    """Whom it talks with."""
    user_id: str
    """The person or the group at the other end; colons may stand in it, as in `@ada:example.org`."""
    thread: str | None = None
    """The thread of it, where it has threads."""
    topic: str | None = None
    """The topic of it, where it has topics."""

    def __post_init__(self) -> None:
        for name in ("agent_id", "provider", "user_id", *_SUFFIXES):
            value = getattr(self, name)
            if value is not None or name not in _SUFFIXES:
                _check_part(name, value, may_have_colons=name == "user_id")
        if self.kind not in _KINDS:
            msg = f"SessionKey.kind is {self.kind!r}: give one of {', '.join(_KINDS)}."
            raise ConfigError(msg)
        if _without_suffixes(self.user_id)[0] != self.user_id:
            msg = f"SessionKey.user_id is {self.user_id!r}: give what stands behind the user as `thread` and `topic`."
            raise ConfigError(msg)
        if len(text := str(self)) > _MOST_CHARS:
            msg = f"SessionKey is {text[:80]!r}...: give one of at most {_MOST_CHARS} characters."
            raise ConfigError(msg)

    def __str__(self) -> str:
        parts = [_FIRST, self.agent_id, self.provider, self.kind, self.user_id]
        for name, value in ((name, getattr(self, name)) for name in _SUFFIXES):
            parts += [] if value is None else [name, value]
        return ":".join(parts)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key in a text.

        Raises:
            ConfigError: It is none.
        """
        parts = text.split(":", 4) if isinstance(text, str) and len(text) <= _MOST_CHARS else []
        if len(parts) != 5 or parts[0] != _FIRST:  # noqa: PLR2004 - as many as the layout has
            shown = text[:80] if isinstance(text, str) else text
            msg = f"The session key is {shown!r}: give {_LAYOUT}, of at most {_MOST_CHARS} characters."
            raise ConfigError(msg)
        user_id, suffixes = _without_suffixes(parts[4])
        return cls(agent_id=parts[1], provider=parts[2], kind=cast("Kind", parts[3]), user_id=user_id, **suffixes)

    @classmethod
    def find(cls, session_id: str) -> Self | None:
        """Return the key that a session id is; `None` where it is another id."""
        try:
            return cls.parse(session_id)
        except ConfigError:
            return None

    @property
    def is_direct(self) -> bool:
        """Whether it talks with one person."""
        return self.kind in {"dm", "direct"}

    @property
    def base(self) -> str:
        """The key without thread and topic: all threads of a conversation have the same limits."""
        return str(replace(self, thread=None, topic=None))

    @property
    def delivery(self) -> dict[str, str]:
        """Where its answers go, as the index of sessions has it: channel, peer, and thread or topic where there are."""
        suffixes = {name: value for name in _SUFFIXES if (value := getattr(self, name)) is not None}
        return {"channel": self.provider, "peer": self.user_id, **suffixes}


def history_limit(session_id: str, channels: Mapping[str, Any]) -> int | None:
    """Return the user turns that channels allow a session; `None` where they set no limit for it.

    For a person `dms.{userId}.historyLimit` of the channel wins over its `dmHistoryLimit`; for groups there is its
    `historyLimit`. A limit of 0 is none, and ends the search. Threads and topics are left out of account.

    Args:
        session_id: The session's key; an id that is no key has no limit.
        channels: Limits by channel, as OpenClaw's `channels` nests them.
    """
    key = SessionKey.find(session_id)
    channel = None if key is None else channels.get(key.provider)
    if key is None or not isinstance(channel, Mapping):
        return None
    if not key.is_direct:
        return _limit(channel, "historyLimit") or None
    users = channel.get("dms")
    user = users.get(key.user_id) if isinstance(users, Mapping) else None
    own = _limit(user, "historyLimit") if isinstance(user, Mapping) else None
    return (_limit(channel, "dmHistoryLimit") if own is None else own) or None


def _limit(limits: Mapping[str, Any], name: str) -> int | None:
    value = limits.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _check_part(name: str, value: object, *, may_have_colons: bool) -> None:
    if not isinstance(value, str) or not value or not value.isprintable() or (":" in value and not may_have_colons):
        without = "" if may_have_colons else " without a colon"
        msg = f"SessionKey.{name} is {value!r}: give printable characters, at least one,{without} and no line break."
        raise ConfigError(msg)


def _without_suffixes(text: str) -> tuple[str, dict[str, str]]:
    """Return the user in the rest of a key, and its thread and topic."""
    suffixes: dict[str, str] = {}
    for name in reversed(_SUFFIXES):
        head, found, value = text.rpartition(f":{name}:")
        if found and head and value and ":" not in value:
            text, suffixes[name] = head, value
    return text, suffixes
