"""Rungs by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxkit.config import KNOWN_RUNGS, SUMMARY_RUNG, LadderConfig
from ctxkit.errors import ConfigError
from ctxkit.plan import Edit
from ctxkit.strategies import STRATEGIES, ClearResultsStrategy, Situation, name_of, strategy_of
from tests.unit.fakes import settings


class Own:
    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        return ()


def test_every_known_rung_but_the_summary_has_a_strategy_of_its_name():
    assert set(STRATEGIES) == set(KNOWN_RUNGS) - {SUMMARY_RUNG}
    assert [name_of(strategy_of(name, settings())) for name in STRATEGIES] == list(STRATEGIES)


@pytest.mark.parametrize("keep", [0, 7])
def test_the_ladder_of_the_config_says_how_many_results_stay(keep: int):
    config = replace(settings(), ladder=LadderConfig(keep_results=keep))
    assert strategy_of("clear_results", config) == ClearResultsStrategy(keep_results=keep)


def test_a_strategy_of_your_own_is_the_rung_itself_and_is_called_by_its_class_or_its_name():
    own = Own()
    assert strategy_of(own, settings()) is own
    assert name_of(own) == "Own"
    own.name = "mine"
    assert name_of(own) == "mine"


def test_a_ladder_without_a_rung_is_refused():
    with pytest.raises(ConfigError, match=r"LadderConfig\.rungs is \(\): name at least one rung among deduplicate"):
        LadderConfig(rungs=())


OWN = Own()


@pytest.mark.parametrize("rungs", [("shrink", "summarize", "shrink"), (OWN, "summarize", OWN)])
def test_a_rung_that_is_named_twice_is_refused(rungs: tuple[object, ...]):
    with pytest.raises(ConfigError, match=r"LadderConfig\.rungs is .+: name each rung once"):
        LadderConfig(rungs=rungs)


def test_two_strategies_of_one_class_are_two_rungs():
    rungs = (ClearResultsStrategy(keep_results=5), "summarize", ClearResultsStrategy(keep_results=5))
    assert LadderConfig(rungs=rungs).rungs_where(is_priced=False) == rungs
