"""What a type checker must see of the public names; checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_type

from ctxkit import (
    ConfigError,
    ContextConfig,
    ContextUnfitError,
    CtxkitError,
    Edit,
    OffloadConfig,
    OverflowConfig,
    Plan,
    Reason,
    Receipt,
    RecordNotFoundError,
    ResultsConfig,
    StoreError,
    SummaryConfig,
    TriggersConfig,
)


def a_config_takes_the_hosts_fields_and_sections() -> ContextConfig:
    config = ContextConfig(
        trigger_ratio=0.7,
        reserve_ratio=0.2,
        tool_result_limit=3000,
        results=ResultsConfig(per_tool_limits={"Bash": 1500}, marker="end"),
        summary=SummaryConfig(timeout_s=30),
        triggers=TriggersConfig(max_tokens=100_000),
        overflow=OverflowConfig(on_unfit="clear"),
        offload=OffloadConfig(local_copy=False),
    )
    assert_type(config.trigger_ratio, float)
    assert_type(config.triggers, TriggersConfig)
    assert_type(config.triggers.max_tokens, int | None)
    assert_type(config.replace(trigger_ratio=0.5), ContextConfig)
    return config


def errors_are_one_tree(error: ContextUnfitError, missing: RecordNotFoundError) -> None:
    errors: Sequence[CtxkitError] = (error, missing)
    assert_type(error.needed_tokens, int)
    assert_type(error.biggest, tuple[tuple[str, int], ...])
    value_error: ValueError = ConfigError("a setting")
    store_error: StoreError = missing
    del errors, value_error, store_error


def plans_and_receipts_are_data(plan: Plan, receipt: Receipt) -> None:
    assert_type(plan.edits, tuple[Edit, ...])
    assert_type(plan.reason, Reason)
    assert_type(receipt.reference, str | None)
    assert_type(receipt.problems, tuple[str, ...])
