"""What a type checker must see of the public names; checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_type

from agentscope.agent import Agent
from agentscope.agent import ContextConfig as HostContextConfig
from agentscope.message import Msg, TextBlock, ToolResultBlock
from agentscope.model import ChatModelBase
from agentscope.tool import Toolkit
from agentscope.workspace import LocalWorkspace as HostWorkspace

from ctxkit import (
    AfterCompression,
    BeforeCompression,
    Brain,
    Commands,
    CommandsMiddleware,
    CompressionMiddleware,
    ConfigError,
    ContextConfig,
    ContextUnfitError,
    CtxkitError,
    Edit,
    FileStore,
    Flushed,
    HistoryConfig,
    HooksConfig,
    HostCodec,
    LadderConfig,
    LoadedConfig,
    LocalWorkspace,
    Memory,
    MemoryConfig,
    MemoryHit,
    MemoryMiddleware,
    MemorySessionStore,
    MemoryStore,
    OffloadConfig,
    Offloader,
    OverflowConfig,
    Plan,
    PrefixAudit,
    Reason,
    Receipt,
    RecordNotFoundError,
    Restored,
    ResultsConfig,
    Retention,
    Rule,
    RulesMiddleware,
    SessionKey,
    SessionMiddleware,
    SessionStore,
    Situation,
    SqliteSessionStore,
    Store,
    StoreError,
    StoreOffloader,
    Strategy,
    SummaryConfig,
    SummaryGenerator,
    TranscriptSessionStore,
    TriggersConfig,
    WireRequest,
    load_config_file,
    prefix_audit,
    rules_of,
    wire_request,
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


def a_profile_is_where_settings_begin(store: SessionStore) -> SessionMiddleware:
    config = ContextConfig.profile("cowagent", trigger_ratio=0.7, history=HistoryConfig(max_tool_calls=20))
    assert_type(config, ContextConfig)
    assert_type(config.history.max_tool_calls, int | None)
    sessions = SessionMiddleware.profile("openclaw", store, retention={"mode": "enforce"})
    assert_type(sessions, SessionMiddleware)
    return sessions


def a_session_key_is_a_route(session_id: str) -> ContextConfig:
    key = SessionKey(agent_id="main", provider="telegram", kind="dm", user_id="ada", thread="1")
    assert_type(SessionKey.parse(str(key)), SessionKey)
    assert_type(SessionKey.find(session_id), SessionKey | None)
    assert_type(key.thread, str | None)
    return ContextConfig.profile("openclaw", history={"channels": {key.provider: {"dmHistoryLimit": 50}}})


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


def three_names_make_an_agent(model: ChatModelBase) -> Agent:
    workspace = LocalWorkspace(workdir="./workspace")
    host_workspace: HostWorkspace = workspace
    config: HostContextConfig = ContextConfig()
    del host_workspace
    return Agent(
        name="coder",
        system_prompt="You are a careful programmer.",
        model=model,
        toolkit=Toolkit(),
        context_config=config,
        offloader=workspace,
        middlewares=[CompressionMiddleware()],
    )


async def what_was_done_is_told(agent: Agent) -> None:
    async with CompressionMiddleware(local_store=MemoryStore()) as compression:
        assert_type(compression, CompressionMiddleware)
        assert_type(compression.receipts(agent), tuple[Receipt, ...])


async def sessions_are_saved_and_restored(agent: Agent) -> None:
    stores: list[SessionStore] = [
        MemorySessionStore(),
        SqliteSessionStore("sessions.db"),
        TranscriptSessionStore("agents"),
    ]
    async with SessionMiddleware(stores[0], restore="texts", retention=Retention(mode="warn")) as session:
        assert_type(session, SessionMiddleware)
        assert_type(await session.attach(agent), Restored | None)
        session.delivery(agent, {"channel": "web"})
        await session.save(agent)


async def commands_are_answered_in_any_front_end(agent: Agent) -> CommandsMiddleware:
    assert_type(await Commands(agent).handle("/context"), str | None)
    return CommandsMiddleware(commands=["context"], locked={"triggers"}, in_chat=False)


def settings_and_rules_come_from_a_file() -> RulesMiddleware:
    loaded = load_config_file("app.yaml", environment={}).config("assistant")
    assert_type(loaded, LoadedConfig)
    assert_type(loaded.rules, tuple[Rule, ...])
    assert_type(loaded.summary_brain, Brain | None)
    assert_type(ContextConfig.from_file("app.yaml", "assistant"), ContextConfig)
    assert_type(ContextConfig.from_loaded(loaded), ContextConfig)
    return RulesMiddleware([*loaded.rules, *rules_of([])], modules={"meter": {"count": print}})


class Shelf:
    """An offloader of a user's own has two methods and no base class."""

    async def offload_context(self, session_id: str, msgs: list[Msg], **kwargs: Any) -> str:
        return f"{session_id}: {len(msgs)} {kwargs}"

    async def offload_tool_result(self, session_id: str, tool_result: ToolResultBlock, **kwargs: Any) -> str:
        return f"{session_id}: {tool_result.id} {kwargs}"


def offloaders_and_stores_are_protocols() -> None:
    stores: list[Store] = [FileStore("workspace"), MemoryStore()]
    offloaders: list[Offloader] = [Shelf(), *(StoreOffloader(store, HostCodec()) for store in stores)]
    del offloaders


class Nothing:
    """A strategy of a user's own has one method and no base class."""

    def plan_edits(self, situation: Situation) -> tuple[Edit, ...]:
        assert_type(situation.pinned, frozenset[int])
        return ()


def told(record: AfterCompression) -> None:
    assert_type(record.receipt, Receipt)


async def announced(record: BeforeCompression) -> None:
    assert_type(record.plan, Plan)


def rungs_and_hooks_are_a_users_own() -> ContextConfig:
    strategy: Strategy = Nothing()
    return ContextConfig(
        ladder=LadderConfig(rungs=(strategy, "clear_results", "summarize"), keep_results=3),
        hooks=HooksConfig(before_compression=[announced], after_compression=[told]),
    )


def noted(entry: Flushed) -> None:
    assert_type(entry.memory, str)
    assert_type(entry.is_extractive, bool)


async def a_memory_can_be_searched_and_listened_to(agent: Agent) -> Sequence[MemoryHit]:
    config = MemoryConfig(time_zone="UTC", bootstrap_names=("AGENTS.md",))
    async with MemoryMiddleware("workspace", config=config, context_summary_callback=noted) as middleware:
        assert_type(await middleware.remember(agent), Flushed | None)
        memory = await middleware.memory_of(agent)
        assert_type(memory, Memory)
        memory.listen(noted)
        return await memory.search("parser", k=3)


async def a_summary_can_be_had_without_an_agent(model: ChatModelBase, messages: Sequence[Msg]) -> TextBlock:
    generator = SummaryGenerator(model, ContextConfig())
    fields = await generator.generate(messages, previous="", instructions=None)
    assert_type(fields, Mapping[str, Any])
    return TextBlock(text=generator.render(fields))


async def requests_can_be_compared(model: ChatModelBase, messages: Sequence[Msg]) -> float:
    """Whatever a formatter makes of a request is compared with the next one."""
    before = await wire_request(model, messages[:-1])
    after = await wire_request(model, messages, has_summary=True)
    assert_type(after, WireRequest)
    audit = await prefix_audit(before, after)
    assert_type(audit, PrefixAudit)
    assert_type(audit.component, str | None)
    return audit.share
