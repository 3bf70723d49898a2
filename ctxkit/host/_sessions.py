"""Which session an agent's state is saved in: what `SessionMiddleware` tells those who change the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from agentscope.agent import Agent

    from ctxkit.offload import Store


class Hold(Protocol):
    """An agent's hold on its session; it must not keep the agent alive."""

    async def save(self) -> None:
        """Save the agent's state as it is now.

        Raises:
            StoreError: It could not be saved; the state saved before stays.
            SessionLockedError: Another owner holds the session.
        """
        ...

    async def touch(self) -> None:
        """Give a sign of life, from which the limit of the hold counts."""
        ...

    def store_for(self, store: Store) -> Store:
        """Return a store as this owner may write to it: refused as soon as another one has taken the session over."""
        ...


_holds: WeakKeyDictionary[Agent, Hold] = WeakKeyDictionary()


def register(agent: Agent, hold: Hold) -> None:
    """Make a hold the agent's."""
    _holds[agent] = hold


def hold_of(agent: Agent) -> Hold | None:
    """Return the agent's hold; None where nobody saves its session."""
    return _holds.get(agent)
