"""Runs of an agent, made from a seed: how large results are, and how often one is needed again that came long before."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import cache

from benchmarks.token_samples import sample

CHARS_PER_TOKEN = 4
"""Of the models that count bytes / 4, as all that are billed here do."""
MEAN_RESULT, SPREAD = 1500, 1.1
"""Tokens of a usual result and the sigma of their logarithm."""
BIG_SHARE, BIG_RESULT, MOST_RESULT = 0.03, 20_000, 60_000
ANSWER_TOKENS, USER_TOKENS = 250, 80
USER_EVERY = 40
"""A user speaks, and so a reply begins, at every so many steps."""
REFERENCE_SHARE, REFERENCE_SHAPE = 0.25, 0.8
"""How many steps need something that was shown before, and the Pareto shape of how many steps before."""
RECORD_EVERY = 300
"""One record that may be needed later stands in so many tokens of a result."""
EXCERPT_TOKENS = 1500
"""What an agent sees again when it looks a record up by a tool of its own."""
KINDS = ("code", "code", "prose", "service log")


@dataclass(frozen=True, kw_only=True)
class Need:
    """Something that a step needs of an earlier result."""

    step: int
    """The step whose result showed it."""
    key: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """One reasoning step, its call and the call's result."""

    number: int
    answer_tokens: int
    result_tokens: int
    is_user: bool
    """Whether a user speaks before it."""
    need: Need | None


@dataclass(frozen=True)
class Trajectory:
    """One run: what a seed decides, whoever manages the context.

    Args:
        seed: Decides everything.
        steps: Its steps.
    """

    seed: int
    steps: tuple[Step, ...]

    def result(self, number: int) -> str:
        """Return the result of a step's call."""
        return _result(self.seed, number, self.steps[number].result_tokens)

    def excerpt(self, need: Need) -> str:
        """Return what the agent sees when it looks at an earlier result again, round the record that it needs."""
        text = self.result(need.step)
        chars = EXCERPT_TOKENS * CHARS_PER_TOKEN
        start = max(0, text.index(need.value) - chars // 2)
        return text[start : start + chars]


def make_trajectory(steps: int, *, seed: int) -> Trajectory:
    """Return a run: lognormal results and a few big ones, references to old results by a power law, a user now and then.

    The distributions are those of the cost model on which the controller rests, fitted to recorded coding agents.
    """
    rnd = random.Random(seed)
    mu = math.log(MEAN_RESULT) - SPREAD**2 / 2
    made: list[Step] = []
    for number in range(steps):
        result = int(min(MOST_RESULT, rnd.lognormvariate(mu, SPREAD)))
        if rnd.random() < BIG_SHARE:
            result = int(BIG_RESULT * rnd.uniform(0.5, 2))
        back = int(rnd.paretovariate(REFERENCE_SHAPE)) if rnd.random() < REFERENCE_SHARE else 0
        needed = number - back
        need = None
        if back and needed >= 0:
            record = rnd.randrange(_records(made[needed].result_tokens))
            need = Need(step=needed, key=_key(needed, record), value=_value(seed, needed, record))
        made.append(
            Step(
                number=number,
                answer_tokens=int(rnd.uniform(0.4, 1.6) * ANSWER_TOKENS),
                result_tokens=result,
                is_user=number % USER_EVERY == 0,
                need=need,
            )
        )
    return Trajectory(seed, tuple(made))


def words(tokens: int, *, seed: str) -> str:
    """Return prose of so many tokens."""
    return sample("prose", random.Random(seed), max(1, tokens) * CHARS_PER_TOKEN)


@cache
def _result(seed: int, number: int, tokens: int) -> str:
    """Return a result in which records stand at equal distances; the same bytes at each call."""
    rnd = random.Random(f"{seed} {number}")
    records = _records(tokens)
    kind = rnd.choice(KINDS)
    pieces = []
    for record in range(records):
        line = (
            f"\nrecord {_key(number, record)} has digest {_value(seed, number, record)} since revision {record + 2}\n"
        )
        chars = max(0, tokens * CHARS_PER_TOKEN // records - len(line))
        pieces.append(sample(kind, rnd, chars) + line)
    return "".join(pieces)


def _records(tokens: int) -> int:
    return max(1, tokens // RECORD_EVERY)


def _key(number: int, record: int) -> str:
    return f"item-{number:04d}-{record}"


def _value(seed: int, number: int, record: int) -> str:
    return f"{random.Random(f'{seed} {number} {record}').getrandbits(48):012x}"
