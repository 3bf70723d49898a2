"""Makes AgentScope's chat models of the brains that files describe."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from agentscope import credential as credentials
from pydantic import ValidationError

from ctxkit.config.checks import did_you_mean
from ctxkit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentscope.model import ChatModelBase

    from ctxkit.config_file import Brain

    MakeModel = Callable[[Brain], ChatModelBase | None]

_PROVIDERS: Final = {
    "anthropic": "AnthropicCredential",
    "dashscope": "DashScopeCredential",
    "deepseek": "DeepSeekCredential",
    "gemini": "GeminiCredential",
    "google": "GeminiCredential",
    "minimax": "MiniMaxCredential",
    "moonshot": "MoonshotCredential",
    "ollama": "OllamaCredential",
    "openai": "OpenAICredential",
    "volcengine": "VolcengineCredential",
    "xai": "XAICredential",
}
"""Providers to the names of AgentScope's credentials, each of which knows its model class; older hosts have fewer."""
_COMPATIBLE: Final = "openai_compat"
_OLLAMA: Final = "ollama"
_OLLAMA_CONFIG: Final = {"base_url": "http://localhost:11434/v1", "api_key": "ollama"}
"""Where Ollama serves OpenAI's API unless it is told otherwise; the key is asked for by clients, not by the server."""
_ADDRESS: Final = ("base_url", "host", "api_host")
"""What the credentials call the address of a server."""
_NOT_GIVEN: Final = frozenset({"id", "name", "type"})
_PARAMETERS: Final = ("temperature", "top_p", "max_tokens")


def model_of(brain: Brain, *, make_model: MakeModel | None = None) -> ChatModelBase:
    """Return a chat model of AgentScope's for what a file describes.

    Args:
        brain: What the file says.
        make_model: Asked first; what it returns is taken, `None` leaves it to AgentScope's own classes.

    Raises:
        ConfigError: AgentScope has no class for the provider, or the class takes something else; no value is named.
    """
    made = None if make_model is None else make_model(brain)
    if made is not None:
        return made
    name = _PROVIDERS.get(brain.provider.lower())
    if brain.backend == _COMPATIBLE:
        if brain.provider.lower() == _OLLAMA:
            brain = replace(brain, config={**_OLLAMA_CONFIG, **brain.config})
        if "base_url" in brain.config:
            name = "OpenAICredential"
    kind = None if name is None else getattr(credentials, name, None)
    if kind is None:
        msg = (
            f"summary_brain.provider is {brain.provider!r}, for which AgentScope has no model here"
            f"{did_you_mean(brain.provider, _PROVIDERS)} Give a make_model of your own, or backend {_COMPATIBLE!r} with a "
            "base_url."
        )
        raise ConfigError(msg)
    try:
        return _made(brain, kind)
    except ImportError as exc:
        msg = f"summary_brain.provider is {brain.provider!r}, whose client is not installed: install {exc.name!r}."
        raise ConfigError(msg) from exc
    except ValidationError as exc:
        wrong = ", ".join(".".join(map(str, error["loc"])) for error in exc.errors(include_input=False))
        msg = f"summary_brain of provider {brain.provider!r} lacks or does not take {wrong}: see {kind.__name__}."
        raise ConfigError(msg) from None  # what pydantic says has the values in it


def _made(brain: Brain, kind: Any) -> ChatModelBase:
    """Return a model of a credential's own class."""
    model = kind.get_chat_model_class()
    given = {name: getattr(brain, name) for name in _PARAMETERS if getattr(brain, name) is not None}
    unknown = [name for name in given if name not in model.Parameters.model_fields]
    if unknown:
        msg = f"summary_brain.{unknown[0]} is set, and {model.__name__} of AgentScope takes none: leave it out."
        raise ConfigError(msg)
    options: dict[str, Any] = {}
    if brain.timeout is not None:
        # Google's client takes milliseconds, and in a place of its own.
        google = {"http_options": {"timeout": round(1000 * brain.timeout)}}
        is_google = kind.__name__ == _PROVIDERS["gemini"]
        options["client_kwargs"] = google if is_google else {"timeout": brain.timeout}
    for name in ("max_retries", "context_size"):
        if getattr(brain, name) is not None:
            options[name] = getattr(brain, name)
    made: ChatModelBase = model(
        credential=kind(**_credential(brain, kind)),
        model=brain.model,
        parameters=model.Parameters(**given),
        **options,
    )
    return made


def _credential(brain: Brain, kind: Any) -> dict[str, Any]:
    """Return what a brain's `config` says, by the names that a credential has."""
    known = [name for name in kind.model_fields if name not in _NOT_GIVEN]
    address = next((name for name in _ADDRESS if name in known), None)
    fields: dict[str, Any] = {}
    for name, value in brain.config.items():
        own = address if name in _ADDRESS and address is not None else name
        if own not in known:
            msg = f"summary_brain.config.{name} is unknown to {kind.__name__}{did_you_mean(name, known)}"
            raise ConfigError(msg)
        fields[own] = value
    return fields
