"""`ContextConfig`: AgentScope's own, with ctxkit's sections nested in it, and checked when it is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from string import Formatter
from typing import TYPE_CHECKING, Any, Self

from agentscope.agent import ContextConfig as HostContextConfig
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from pydantic import ConfigDict, Field, ValidationError, model_validator

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
    Settings,
    SummaryConfig,
    TriggersConfig,
    WindowConfig,
)
from ctxkit.config_file import LoadedConfig, load_config_file
from ctxkit.errors import ConfigError
from ctxkit.host import _compat
from ctxkit.host._brains import model_of
from ctxkit.profiles import find_profile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from ctxkit.host._brains import MakeModel

    CompleteContextConfig = HostContextConfig
else:
    CompleteContextConfig = _compat.complete_config_class()


class ContextConfig(CompleteContextConfig):
    """How an agent's context is kept within its window.

    All fields of `agentscope.agent.ContextConfig` have the same names, defaults and bounds here, on every supported
    version of the host. Wrong settings are refused at construction.

    Raises:
        ConfigError: A setting that cannot work; the message names the field, the value and the remedy.
    """

    model_config = ConfigDict(extra="forbid")

    trigger_ratio: float = Field(default=0.8, gt=0, le=0.9)
    """Compress when the request exceeds this share of the context size, (0, 0.9].

    Set, it wins over `triggers.mode`; unset, the mode decides where the model's prices are known, and this default where
    they are not. Manual calls and the host's tool always go by it.
    """

    tool_result_limit: int = Field(default=50000, ge=1, title="Tool Result Limit")
    """Most tokens of one tool result in the context, at least 1."""

    results: ResultsConfig = Field(default_factory=ResultsConfig)
    """How tool results, pastes and tool-call arguments enter the context."""

    summary: SummaryConfig = Field(default_factory=SummaryConfig)
    """How the summary is made and how much of the window it may take."""

    triggers: TriggersConfig = Field(default_factory=TriggersConfig)
    """When ctxkit acts, beside `trigger_ratio`."""

    overflow: OverflowConfig = Field(default_factory=OverflowConfig)
    """What happens when a request does not fit."""

    offload: OffloadConfig = Field(default_factory=OffloadConfig)
    """How what leaves the context is stored and recalled."""

    privacy: PrivacyConfig = Field(default_factory=PrivacyConfig)
    """What is kept from disks and from summaries."""

    ladder: LadderConfig = Field(default_factory=LadderConfig)
    """In which order what is done to make room."""

    cost: CostConfig = Field(default_factory=CostConfig)
    """What tokens cost, and how the provider's prompt cache is used."""

    window: WindowConfig = Field(default_factory=WindowConfig)
    """How large the window is taken to be."""

    hooks: HooksConfig = Field(default_factory=HooksConfig)
    """What your own code does before and after a compression."""

    memory: MemoryConfig = Field(default_factory=MemoryConfig)
    """What `MemoryMiddleware` writes down, and which files it puts into the system prompt."""

    history: HistoryConfig = Field(default_factory=HistoryConfig)
    """How much of earlier turns, and of one turn's tool calls, there may be."""

    if not TYPE_CHECKING:  # type checkers see pydantic's own signature

        def __init__(self, **settings: Any) -> None:
            try:
                super().__init__(**settings)
            except ValidationError as exc:
                raise ConfigError(_in_words(exc, type(self).model_fields)) from exc

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.reserve_ratio >= self.trigger_ratio:
            msg = (
                f"reserve_ratio is {self.reserve_ratio!r} and trigger_ratio {self.trigger_ratio!r}: "
                "what is kept must be smaller than what triggers; lower reserve_ratio"
            )
            raise ValueError(msg)
        if "context_buffer_ratio" not in self.model_fields_set and self.context_buffer_ratio >= self.trigger_ratio:
            # The host refuses such a pair when the agent is made; only its default is adapted, never what was set.
            self.__dict__["context_buffer_ratio"] = self.trigger_ratio / 2
        _check_schema(self.summary_schema)
        _check_template(self.summary_template, self.summary_schema)
        return self

    @classmethod
    def profile(cls, name: str, **overrides: Any) -> Self:
        """Return the settings of a system, for example `ContextConfig.profile("openclaw", trigger_ratio=0.7)`.

        What the profile sets counts as set, `trigger_ratio` among it; what it does not name keeps its default.

        Args:
            name: `default`, `agentscope`, `cowagent`, `openclaw` or `digitorn`.
            **overrides: Settings that win over the profile's: fields of AgentScope's, and sections. A section as a mapping
                is merged with the profile's field by field; one as an object takes its place.

        Raises:
            ConfigError: There is no such profile, or a setting that cannot work.
        """
        found = find_profile(name)
        settings: dict[str, Any] = found.host_fields()
        settings |= {section: values for section in _SECTIONS if (values := found.section(section))}
        for setting, value in overrides.items():
            base = settings.get(setting)
            if setting in _SECTIONS and isinstance(value, Mapping) and isinstance(base, Mapping):
                settings[setting] = {**base, **value}
            else:
                settings[setting] = value
        return cls(**settings)

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        agent: str | None = None,
        *,
        make_model: MakeModel | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Return the settings that a YAML or JSON file has for an agent, on the profile that it names.

        It reads a file, so call it before the event loop runs, or in a thread. A file's rules are for `RulesMiddleware`:
        see `load_config_file`, which also takes own kinds of rules.

        Args:
            path: The file.
            agent: The agent's id in the file; `None` takes the only one that there is, or what holds for all.
            make_model: Makes the model of a `summary_brain`; AgentScope's own classes are taken where it returns `None`.
            environment: Where `{{env.NAME}}` is looked up; the process's own where unset.

        Raises:
            ConfigFileError: The file cannot be read, or cannot be used; the message has a line for each thing that is wrong.
            ConfigError: There is no such agent, or no model for the brain.
        """
        return cls.from_loaded(load_config_file(path, environment=environment).config(agent), make_model=make_model)

    @classmethod
    def from_loaded(cls, loaded: LoadedConfig, *, make_model: MakeModel | None = None) -> Self:
        """Return the settings that a file which was loaded has for an agent.

        Args:
            loaded: What `load_config_file(path).config(agent)` returned.
            make_model: Makes the model of a `summary_brain`; AgentScope's own classes are taken where it returns `None`.

        Raises:
            ConfigError: Settings that do not go together, or no model for the brain; it says nothing of the environment's.
        """
        settings: dict[str, Any] = loaded.host_fields()
        settings |= {section: values for section in _SECTIONS if (values := loaded.section(section))}
        try:
            if loaded.summary_brain is not None:
                model = model_of(loaded.summary_brain, make_model=make_model)
                settings["summary"] = {**settings.get("summary", {}), "model": model}
            return cls.profile(loaded.profile, **settings)
        except ConfigError as exc:
            raise ConfigError(loaded.hide(str(exc))) from None  # what it was raised from has the values in it

    def replace(self, **changes: Any) -> Self:
        """Return a copy with changes, checked as at construction.

        Raises:
            ConfigError: A setting that cannot work.
        """
        settings = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**settings, **changes})


def _check_schema(schema: Mapping[str, Any]) -> None:
    """Refuse a schema of the summary by which no answer could be checked."""
    try:
        validator_for(schema).check_schema(dict(schema))
    except SchemaError as exc:
        place = "/".join(str(part) for part in exc.absolute_path) or "its root"
        msg = f"summary_schema is {schema!r}: it is no valid JSON schema at {place} ({exc.message}); mend it there"
        raise ValueError(msg) from exc


def _check_template(template: str, schema: Mapping[str, Any]) -> None:
    """Refuse a template that names a field which the schema lacks, or that `str.format` cannot render."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        msg = f"summary_schema is {schema!r}: give a JSON schema of an object with 'properties'"
        raise ValueError(msg)
    try:
        unknown = _field_names(template) - set(properties)
        if not unknown:
            template.format(**dict.fromkeys(properties, ""))
    except (ValueError, IndexError, KeyError, AttributeError) as exc:
        msg = f"summary_template cannot be rendered by str.format ({exc}): write literal braces as '{{{{' and '}}}}'"
        raise ValueError(msg) from exc
    if unknown:
        msg = (
            f"summary_template names {sorted(unknown)!r}, which summary_schema lacks: "
            f"use some of {sorted(properties)!r}, and write literal braces as '{{{{' and '}}}}'"
        )
        raise ValueError(msg)


def _field_names(template: str) -> set[str]:
    """Return the names that a format string uses."""
    return {name.split(".")[0].split("[")[0] for _, name, _, _ in Formatter().parse(template) if name is not None}


def _in_words(exc: ValidationError, fields: Mapping[str, Any]) -> str:
    """Return what is wrong with each setting: field, value, remedy."""
    lines = []
    for error in exc.errors(include_url=False):
        where = ".".join(str(part) for part in error["loc"])
        message = error["msg"].removeprefix("Value error, ")
        if error["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
            message = f"unknown setting; known are {', '.join(_known(fields, error['loc']))}"
        lines.append(f"{where} is {error['input']!r}: {message}" if where else message)
    return "ContextConfig: " + "; ".join(lines)


def _known(fields: Mapping[str, Any], place: Sequence[int | str]) -> list[str]:
    """Return the settings that there are where an unknown one was given."""
    if len(place) == 1:
        return sorted(fields)
    section = Price if place[-2] == "price" else fields[str(place[-2])].annotation
    return sorted(field.name for field in dataclasses.fields(section))


_SECTIONS = (
    "results",
    "summary",
    "triggers",
    "overflow",
    "offload",
    "privacy",
    "ladder",
    "cost",
    "window",
    "hooks",
    "memory",
    "history",
)


def settings_of(config: HostContextConfig) -> Settings:
    """Return the engine's settings for any config that an agent was given, ctxkit's or the host's own."""
    sections = {name: getattr(config, name) for name in _SECTIONS if hasattr(config, name)}
    return Settings(
        trigger_ratio=config.trigger_ratio,
        reserve_ratio=config.reserve_ratio,
        compression_prompt=config.compression_prompt,
        summary_template=config.summary_template,
        summary_schema=config.summary_schema,
        tool_result_limit=config.tool_result_limit,
        fallback_to_truncation=getattr(config, "compression_fallback_to_truncation", True),
        max_image_num=getattr(config, "max_image_num", 5),
        is_result_limit_explicit="tool_result_limit" in config.model_fields_set,
        is_ratio_explicit="trigger_ratio" in config.model_fields_set,
        is_reserve_explicit="reserve_ratio" in config.model_fields_set,
        **sections,
    )
