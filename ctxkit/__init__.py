"""Lets an AgentScope agent run for ever on a finite context window, and loses nothing.

The public names are `__all__`. They are imported when they are first used, for AgentScope takes seconds to import and
a tokenizer's vocabulary one more; `import ctxkit` itself imports neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ctxkit.config import (
        CostConfig,
        HistoryConfig,
        HooksConfig,
        LadderConfig,
        MemoryConfig,
        OffloadConfig,
        OverflowConfig,
        Price,
        PrivacyConfig,
        ResultsConfig,
        SummaryConfig,
        TriggersConfig,
        WindowConfig,
    )
    from ctxkit.config_file import Brain, ConfigFile, LoadedConfig, load_config_file
    from ctxkit.engine.hooks import AfterCompression, BeforeCompression
    from ctxkit.errors import (
        ConfigError,
        ConfigFileError,
        ContextUnfitError,
        CtxkitError,
        NewerFormatError,
        RecordNotFoundError,
        SessionLockedError,
        StaleOwnerError,
        StoreError,
        StoreFullError,
        StoreReadError,
        StoreWriteError,
        SummaryError,
    )
    from ctxkit.host._cache import wire_request
    from ctxkit.host._codec import HostCodec
    from ctxkit.host._session_restore import Restored
    from ctxkit.host.commands import Commands, CommandsMiddleware
    from ctxkit.host.compression import CompressionMiddleware
    from ctxkit.host.context_config import ContextConfig
    from ctxkit.host.events import ContextEvent
    from ctxkit.host.memory import MemoryMiddleware
    from ctxkit.host.rules import RulesMiddleware
    from ctxkit.host.session import SessionMiddleware
    from ctxkit.host.steering import Steering
    from ctxkit.host.summary import SummaryGenerator, SummarySchema
    from ctxkit.host.workspace import LocalWorkspace
    from ctxkit.ledger import Deed, ToolAdapter, register_tool_adapter
    from ctxkit.memory import BootstrapFiles, Flushed, Memory, MemoryHit
    from ctxkit.offload import Entry, FileLimits, FileStore, MemoryStore, Offloader, Record, Store, StoreOffloader
    from ctxkit.offload.redact import SecretRedactor
    from ctxkit.plan import Draft, Edit, EditKind, Plan, Reason, Receipt
    from ctxkit.rules import Facts, Rule, RuleAgent, RuleKinds, rules_of, with_auto_compact
    from ctxkit.sessions import (
        MemorySessionStore,
        Retention,
        SessionKey,
        SessionLocks,
        SessionStore,
        SqliteSessionStore,
        TranscriptSessionStore,
    )
    from ctxkit.strategies import Situation, Strategy
    from ctxkit.tokens.prefix import PrefixAudit, WireRequest, prefix_audit

__all__ = [
    "AfterCompression",
    "BeforeCompression",
    "BootstrapFiles",
    "Brain",
    "Commands",
    "CommandsMiddleware",
    "CompressionMiddleware",
    "ConfigError",
    "ConfigFile",
    "ConfigFileError",
    "ContextConfig",
    "ContextEvent",
    "ContextUnfitError",
    "CostConfig",
    "CtxkitError",
    "Deed",
    "Draft",
    "Edit",
    "EditKind",
    "Entry",
    "Facts",
    "FileLimits",
    "FileStore",
    "Flushed",
    "HistoryConfig",
    "HooksConfig",
    "HostCodec",
    "LadderConfig",
    "LoadedConfig",
    "LocalWorkspace",
    "Memory",
    "MemoryConfig",
    "MemoryHit",
    "MemoryMiddleware",
    "MemorySessionStore",
    "MemoryStore",
    "NewerFormatError",
    "OffloadConfig",
    "Offloader",
    "OverflowConfig",
    "Plan",
    "PrefixAudit",
    "Price",
    "PrivacyConfig",
    "Reason",
    "Receipt",
    "Record",
    "RecordNotFoundError",
    "Restored",
    "ResultsConfig",
    "Retention",
    "Rule",
    "RuleAgent",
    "RuleKinds",
    "RulesMiddleware",
    "SecretRedactor",
    "SessionKey",
    "SessionLockedError",
    "SessionLocks",
    "SessionMiddleware",
    "SessionStore",
    "Situation",
    "SqliteSessionStore",
    "StaleOwnerError",
    "Steering",
    "Store",
    "StoreError",
    "StoreFullError",
    "StoreOffloader",
    "StoreReadError",
    "StoreWriteError",
    "Strategy",
    "SummaryConfig",
    "SummaryError",
    "SummaryGenerator",
    "SummarySchema",
    "ToolAdapter",
    "TranscriptSessionStore",
    "TriggersConfig",
    "WindowConfig",
    "WireRequest",
    "load_config_file",
    "prefix_audit",
    "register_tool_adapter",
    "rules_of",
    "wire_request",
    "with_auto_compact",
]

_ROOMS: Final = {
    "ctxkit.config": (
        "CostConfig",
        "HistoryConfig",
        "HooksConfig",
        "LadderConfig",
        "MemoryConfig",
        "OffloadConfig",
        "OverflowConfig",
        "Price",
        "PrivacyConfig",
        "ResultsConfig",
        "SummaryConfig",
        "TriggersConfig",
        "WindowConfig",
    ),
    "ctxkit.config_file": ("Brain", "ConfigFile", "LoadedConfig", "load_config_file"),
    "ctxkit.engine.hooks": ("AfterCompression", "BeforeCompression"),
    "ctxkit.errors": (
        "ConfigError",
        "ConfigFileError",
        "ContextUnfitError",
        "CtxkitError",
        "NewerFormatError",
        "RecordNotFoundError",
        "SessionLockedError",
        "StaleOwnerError",
        "StoreError",
        "StoreFullError",
        "StoreReadError",
        "StoreWriteError",
        "SummaryError",
    ),
    "ctxkit.host._cache": ("wire_request",),
    "ctxkit.host._codec": ("HostCodec",),
    "ctxkit.host._session_restore": ("Restored",),
    "ctxkit.host.commands": ("Commands", "CommandsMiddleware"),
    "ctxkit.host.compression": ("CompressionMiddleware",),
    "ctxkit.host.context_config": ("ContextConfig",),
    "ctxkit.host.events": ("ContextEvent",),
    "ctxkit.host.memory": ("MemoryMiddleware",),
    "ctxkit.host.rules": ("RulesMiddleware",),
    "ctxkit.host.session": ("SessionMiddleware",),
    "ctxkit.host.steering": ("Steering",),
    "ctxkit.host.summary": ("SummaryGenerator", "SummarySchema"),
    "ctxkit.host.workspace": ("LocalWorkspace",),
    "ctxkit.ledger": ("Deed", "ToolAdapter", "register_tool_adapter"),
    "ctxkit.memory": ("BootstrapFiles", "Flushed", "Memory", "MemoryHit"),
    "ctxkit.offload": (
        "Entry",
        "FileLimits",
        "FileStore",
        "MemoryStore",
        "Offloader",
        "Record",
        "Store",
        "StoreOffloader",
    ),
    "ctxkit.offload.redact": ("SecretRedactor",),
    "ctxkit.plan": ("Draft", "Edit", "EditKind", "Plan", "Reason", "Receipt"),
    "ctxkit.rules": ("Facts", "Rule", "RuleAgent", "RuleKinds", "rules_of", "with_auto_compact"),
    "ctxkit.sessions": (
        "MemorySessionStore",
        "Retention",
        "SessionKey",
        "SessionLocks",
        "SessionStore",
        "SqliteSessionStore",
        "TranscriptSessionStore",
    ),
    "ctxkit.strategies": ("Situation", "Strategy"),
    "ctxkit.tokens.prefix": ("PrefixAudit", "WireRequest", "prefix_audit"),
}
"""Module to the public names that it defines; the imports above say the same to type checkers."""

_HOME: Final = {name: module for module, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
