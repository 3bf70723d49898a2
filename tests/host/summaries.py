"""Agents with a history that is due for a summary, and what their model answers."""

from ctxkit import ContextConfig, LadderConfig, SummaryConfig
from ctxkit.testing import ScriptedModel
from tests.host.agents import history, make_agent, memory_offloader, text_of

WINDOW = 32768
GOOD = {
    "task_overview": "Find the numbers of all topics.",
    "current_state": "Half of them are found.",
    "important_discoveries": "Every report names its number first.",
    "next_steps": "Look up the rest.",
    "context_to_preserve": "The user wants them in a table.",
}
QUICK = {"retry_delay_s": 0.0}


def lowered(*, summary: SummaryConfig | None = None, **settings) -> ContextConfig:
    """Return a config that compresses a context of 25 turns, by a summary alone."""
    sections = {"summary": summary or SummaryConfig(**QUICK), "ladder": LadderConfig(rungs=("summarize",))}
    return ContextConfig(**{"trigger_ratio": 0.2, "reserve_ratio": 0.05, **sections, **settings})


def an_agent(summaries=None, *, config=None, turns=25, script=("done",), window=WINDOW, **settings):
    model = ScriptedModel(script, context_size=window, summaries=summaries, enforce="cl100k")
    agent = make_agent(model, config=config or lowered(), offloader=memory_offloader(), **settings)
    agent.state.context.extend(history(turns))
    return agent, model


def answers(*each):
    """Return what answers one summary request after the other, the last one for ever."""
    left = list(each)
    return lambda messages: left.pop(0) if len(left) > 1 else left[0]


def last_asked(model) -> str:
    return text_of(model.summary_requests[-1].messages[-1:])
