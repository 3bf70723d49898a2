"""Rules: a condition and an action, looked at before each model call or when a turn has ended."""

from ctxkit.rules._base import Action, Condition, Facts, RuleAgent
from ctxkit.rules.actions import CompactContext, InjectMessage, LogMessage, ModuleAction
from ctxkit.rules.conditions import Always, ContextPressure, MessageCount, ToolCalls, TurnCount
from ctxkit.rules.kinds import RuleKinds
from ctxkit.rules.read import read_rule, rules_of
from ctxkit.rules.rule import AUTO_COMPACT, Rule, check_ids, with_auto_compact

__all__ = [
    "AUTO_COMPACT",
    "Action",
    "Always",
    "CompactContext",
    "Condition",
    "ContextPressure",
    "Facts",
    "InjectMessage",
    "LogMessage",
    "MessageCount",
    "ModuleAction",
    "Rule",
    "RuleAgent",
    "RuleKinds",
    "ToolCalls",
    "TurnCount",
    "check_ids",
    "read_rule",
    "rules_of",
    "with_auto_compact",
]
