"""Recognises a provider's refusal of a request that is larger than its context window, and reads the numbers in it.

There is no common error: each SDK has its class, each server its words, and gateways wrap both. So the error, its
causes and the members of a group are read by attribute, machine-readable codes first, then known wordings.

What no provider says cannot be recognised: Ollama cuts a long prompt silently by default, and answers as if nothing
had been (github.com/ollama/ollama/issues/7661); there only the usage that it reports shows it.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, kw_only=True)
class Overflow:
    """A request that was larger than the window, as the provider put it.

    Where the message says how much of the window was asked for as output, that is taken off `limit_tokens`: a request
    whose input has `limit_tokens` or less will be accepted.
    """

    limit_tokens: int | None
    """Input tokens that the request may have; None where the message does not say."""
    needed_tokens: int | None
    """Input tokens that it had, at least; None where the message does not say."""
    message: str
    """What the provider said, at most 500 characters."""


def recognise(error: BaseException) -> Overflow | None:
    """Return what an error says of a request that is larger than the window, or None if it says something else.

    Rate limits (also those in tokens a minute), refused output lengths, payload and image sizes, filters, credentials
    and errors that only quote such words from the content are something else. Never raises.

    Args:
        error: What a model call raised, at once or in the middle of a stream; causes, contexts and the members of a
            group are read too.
    """
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_ERRORS:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        facts = _read(each)
        if _is_other(facts):
            continue
        if not any(_QUOTING_NAMES.search(name) for name in facts.names) and (found := _judge(facts)):
            return found
        waiting += _related(each)
    return None


@dataclass(kw_only=True)
class _Facts:
    """What one error says of itself, in plain form."""

    names: tuple[str, ...]
    codes: list[str] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All texts, cut where a validation error begins to echo the request."""
        return _ECHO.split("\n".join(self.texts)[:_MOST_CHARS], maxsplit=1)[0]


_MOST_CHARS: Final = 4096
"""Only the beginning of a message is looked at: the wording stands there, quoted content behind it."""
_MOST_ERRORS: Final = 32
_MOST_DEPTH: Final = 6
_MOST_ITEMS: Final = 32
_SHOWN_CHARS: Final = 500

_PLAUSIBLE_TOKENS: Final = range(16, 1_000_000_000)
"""A learnt limit outside of this is no limit: an error code, or a number of bytes."""

# 4096, 131,072, 1_048_576, 131.072; one group.
_NUMBER: Final = r"(\d{1,3}(?:[,_.]\d{3}){1,4}(?!\d)|\d{1,12})"


def _patterns(*sources: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(source.replace("<n>", _NUMBER), re.IGNORECASE) for source in sources)


_SAYING_NAMES: Final = re.compile(
    r"Context(?:Window|Length|Size|Limit)?(?:Exceeded|Overflow)|OutOfContext|PromptTooL(?:ong|arge)"
)
"""Class names of libraries that translate the error themselves: litellm, langchain, strands."""
_QUOTING_NAMES: Final = re.compile(r"JSONDecode|StructuredOutput|ValidationError$|^Tool|Template")
"""Errors about content, which they quote; the words in them are not the provider's, their causes may be."""
_OTHER_NAMES: Final = re.compile(
    r"RateLimit|Throttl|Quota|Authentication|PermissionDenied|NotFound|Timeout|Cancel|ContentFilter|Overloaded"
)
_OTHER_STATUSES: Final = frozenset({401, 402, 403, 404, 407, 408, 409, 429, 503, 529})
"""HTTP statuses that no provider refuses a too large request with; 400, 413, 422 and 500 are in use."""

_SAYING_CODES: Final = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Azure, Groq and compatible servers
        "context_window_exceeded",
        "model_context_window_exceeded",  # Z.ai, Anthropic
        "exceed_context_size_error",  # llama.cpp, github.com/ggml-org/llama.cpp/pull/15780
        "request_too_large",  # Anthropic, HTTP 413: over 32 MB, which no window holds
        "prompt_too_long",
        "tokens_limit_reached",  # GitHub Models, HTTP 413
        "model_max_prompt_tokens_exceeded",  # GitHub Copilot
        "1261",  # Zhipu: "Prompt exceeds max length"
    }
)
_OTHER_CODES: Final = re.compile(
    r"rate_?limit|quota|throttl|content_?(?:filter|policy)|api_key|authentication|permission|billing|overloaded"
    r"|resource_?exhausted|string_above_max_length|image",
    re.IGNORECASE,
)
_OTHER_WORDS: Final = re.compile(
    r"tokens? per (?:minute|min|hour|day)\b|\b[TR]P[MD]\b|rate[ _-]?limit|too many requests|throttl"
    r"|quota (?:exceeded|limit)|(?:exceeded|insufficient)[ \w]{0,20} quota|please wait|overloaded"
    r"|string too long"  # OpenAI counts characters of one field there
    r"|^(?:the )?(?:tool|function)\b[^\n]{0,80}?(?:fail|error|rais)",
    re.IGNORECASE,
)
_ECHO: Final = re.compile(r"['\"]input['\"]\s*:|\binput_value=")
"""Where pydantic begins to show what it was given."""

_SAYING_WORDS: Final = _patterns(
    # OpenAI Responses: exceeds the context window of this model; llama.cpp: exceeds the available context size;
    # Anthropic: exceed context limit; Cloudflare: exceeded this model context window limit; Poolside: exceeds the
    # maximum allowed input length of; Ollama: exceeded max context length by; and many gateways
    r"exceed(?:s|ed|ing)?\s(?:(?:the|this|your|available|configured|maximum|max|allowed|supported|total|model(?:'?s)?)\s){0,5}"
    r"(?:context|input|prompt)[ _-](?:length|window|size|limit|tokens?\b)",
    r"\bcontext[ _](?:length|window|size)[ _](?:(?:was|is|has been)[ _])?exceeded",  # LM Studio and many gateways
    r"context window exceeds limit",  # MiniMax; the number behind it is an error code
    r"maximum context length is <n>",  # OpenAI, Azure, DeepSeek, vLLM, OpenRouter
    r"maximum prompt length is <n>",  # xAI
    r"(?:maximum|model) max(?:imum)? length exceeded|model max length exceeded",
    r"reduce the length of (?:the|your) (?:input )?(?:messages|prompt)",  # OpenAI, Groq, vLLM
    r"prompt (?:is )?too long",  # Anthropic, Vertex, Bedrock, Fireworks, Ollama
    r"input is too long for (?:the )?(?:requested )?model",  # Bedrock, Databricks
    r"input is too long\. max input length is <n>",  # Replicate
    r"input tokens exceeds? the configured limit",  # OpenAI, Azure
    r"input token count[^\n]{0,40}? (?:exceeds the maximum|but the model only supports)",  # Gemini, Vertex
    r"number of input tokens (?:exceeds max|<n> cannot exceed)",  # Amazon Nova; watsonx
    r"exceeded model token limit",  # Moonshot
    r"range of input length should be \[",  # DashScope
    r"exceeds? max(?:imum)? message tokens",  # Volcengine
    r"prompt_tokens[^\n]{0,20}? must be less than max_seq_len",  # SiliconFlow
    r"exceeds? max_(?:seq|model)_len",  # TensorRT-LLM and others
    r"prompt exceeds (?:the )?(?:max(?:imum)?|length)(?: limit| length)",  # Zhipu
    r"prompt tokens? too long",  # Baidu
    r"prompt token count of <n> exceeds the limit",  # GitHub Copilot
    r"request body too large for [^\n]{1,80}? max size: <n> tokens",  # GitHub Models
    r"too many input tokens",  # Bedrock Titan
    r"too many tokens: total number of tokens in the prompt",  # Cohere
    r"tokens in request more than max tokens allowed",  # Writer
    r"too large for model with <n> maximum context length",  # Mistral
    r"greater than the context length|n_keep: ?\d{1,12} ?>=? ?n_ctx",  # LM Studio
    r"context length (?:of|is) only <n>",  # LM Studio, Ollama
    r"longer than the (?:model'?s |maximum )(?:context|model|input) length",  # SGLang, Together, vLLM
    r"too long to fit into the model",  # vLLM
    r"configured context size is <n>",  # oMLX
    r"inputs\W{0,2} tokens \+ \W?max_new_tokens\W? must be <=|inputs\W{0,2} must have less than <n> tokens",  # TGI
    r"prompt[ 过]{0,2}超长|输入(?:内容|文本)?(?:长度)?(?:过长|超)|上下文(?:长度|窗口)?(?:过长|超|已超)",
    r"超[过出][^\n]{0,12}?(?:上下文|最大输入|最大长度|输入长度)",
)

_LIMITS: Final = _patterns(
    r"\d \+ \d{1,12} > <n>",  # Anthropic: input + max_tokens > window
    r"tokens > <n> max",
    r"max(?:imum)?(?: allowed)? (?:context|prompt|input|model) length(?: of| is)?:? ?\(?<n>",
    r"\bcontext (?:length|size|window)(?: limit)?(?: of| is)?(?: only)? ?\(?<n>",
    r"maximum number of (?:input )?tokens allowed \(?<n>",
    r"only supports up to <n>",
    r"model token limit: <n>",
    r"input length should be \[\d{1,12}, ?<n>\]",
    r"(?:configured limit of|exceeds the limit of|total tokens limit|cannot exceed) <n>",
    r"max (?:input tokens|size): <n>",
    r"model with <n> maximum",
    r"max_(?:seq|model)_len \(?<n>",
    r"\bn_ctx: ?<n>",
    r"max_new_tokens\W? must be <= <n>",
    r"must have less than <n> tokens",
    r"max length: <n>",
)
_TOTALS: Final = _patterns(
    r"for a total of at least <n>",
    r"(?:requested|resulted in|request contains|total of)(?: about)? <n> tokens",
    r"\(requested: <n>\)",
    r"maximum output tokens \(<n>\)",
)
_INPUTS: Final = _patterns(
    r"\b<n> \+ \d{1,12} > \d",
    r"too long: <n>",
    r"\(<n> (?:in|of) (?:the |your )?(?:messages|prompt|text input)",
    r"(?:contains at least|contains|has) <n> (?:input )?tokens",
    r"token count(?: is|:| of)? ?\(?<n>",
    r"(?:input|prompt|request) \(?(?:length |total length )?\(?<n>",
    r"prompt_tokens:? ?\(?<n>",
    r"keep the first <n>",
    r"n_keep: ?<n>",
    r"requested tokens \(<n>\)",
    r"number of input tokens <n>",
    r"(?:supplied|received|given:) <n>",
)
_OUTPUTS: Final = _patterns(
    r"\d \+ <n> > \d",
    r"\b<n> (?:in|for) the (?:completion|output)",
    r"\b<n> tokens for the completion",
    r"requested <n> output tokens",
    r"max_(?:completion_)?tokens\W{0,2} is too large: <n>",
    r"inputs\W{0,2} tokens and <n>",
)


def _is_other(facts: _Facts) -> bool:
    return (
        bool(facts.statuses & _OTHER_STATUSES)
        or any(_OTHER_NAMES.search(name) for name in facts.names)
        or any(_OTHER_CODES.search(code) for code in facts.codes)
        or _OTHER_WORDS.search(facts.text) is not None
    )


def _judge(facts: _Facts) -> Overflow | None:
    text = facts.text
    says = (
        any(_SAYING_NAMES.search(name) for name in facts.names)
        or any(code in _SAYING_CODES for code in facts.codes)
        or any(pattern.search(text) for pattern in _SAYING_WORDS)
    )
    if not says:
        return None
    limit, output = _first(_LIMITS, text), _first(_OUTPUTS, text) or 0
    if limit is not None and output >= limit:
        return None  # the output that was asked for fills the window alone: no smaller input would be accepted
    total = _first(_TOTALS, text)
    needed = total - output if total is not None and total > output else _first(_INPUTS, text)
    return Overflow(
        limit_tokens=_plausible(None if limit is None else limit - output),
        needed_tokens=_plausible(needed),
        message=(text.strip() or " ".join(facts.codes) or facts.names[0])[:_SHOWN_CHARS],
    )


def _first(patterns: Iterable[re.Pattern[str]], text: str) -> int | None:
    for pattern in patterns:
        if found := pattern.search(text):
            return int(re.sub(r"\D", "", found[1]))
    return None


def _plausible(tokens: int | None) -> int | None:
    return tokens if tokens is not None and tokens in _PLAUSIBLE_TOKENS else None


_STATUS_KEYS: Final = frozenset({"status_code", "http_status", "httpstatuscode", "status", "code"})
_CODE_KEYS: Final = frozenset({"code", "type", "status", "reason"})
_TEXT_KEYS: Final = frozenset({"message", "msg", "error", "errors", "detail", "details", "raw", "error_description"})
_NEST_KEYS: Final = frozenset({"error", "errors", "detail", "details", "metadata", "responsemetadata", "innererror"})
_COUNT_KEYS: Final = frozenset({"n_ctx", "n_prompt_tokens"})
_ATTRIBUTES: Final = ("body", "details", "message", "error", "code", "type", "status_code", "http_status", "status")


def _read(error: BaseException) -> _Facts:
    facts = _Facts(names=tuple(kind.__name__ for kind in type(error).__mro__ if kind.__module__ != "builtins"))
    # A TimeoutError is of `builtins`, and is no overflow.
    if isinstance(error, TimeoutError):
        facts.names += ("Timeout",)
    for name in _ATTRIBUTES:
        value = _attribute(error, name)
        _collect(value if name == "body" else {name: value}, facts, depth=0)
    response = _attribute(error, "response")
    if isinstance(response, Mapping):  # botocore
        _collect(response, facts, depth=0)
    elif response is not None:
        _collect({"status_code": _attribute(response, "status_code")}, facts, depth=0)
        if not facts.texts:
            _collect(_attribute(response, "text"), facts, depth=0)
    if not facts.texts:
        facts.texts.append(_string(error))
    return facts


def _collect(value: object, facts: _Facts, *, depth: int) -> None:
    """Gather codes and texts from the keys that errors use; others may echo the request."""
    if depth > _MOST_DEPTH:
        return
    if isinstance(value, bytes | bytearray):
        value = bytes(value[:_MOST_CHARS]).decode("utf-8", "replace")
    if isinstance(value, str):
        decoded = _decoded(value)
        if decoded is None:
            facts.texts.append(value[:_MOST_CHARS])
        else:
            _collect(decoded, facts, depth=depth + 1)
    elif isinstance(value, list | tuple):
        for item in value[:_MOST_ITEMS]:
            _collect(item, facts, depth=depth + 1)
    elif isinstance(value, Mapping):
        for key, item in itertools.islice(_items(value), _MOST_ITEMS):
            _collect_item(str(key).lower(), item, facts, depth=depth)


def _collect_item(key: str, item: object, facts: _Facts, *, depth: int) -> None:
    if isinstance(item, int) and not isinstance(item, bool):
        if key in _STATUS_KEYS:
            facts.statuses.add(int(item))
        if key in _COUNT_KEYS:
            facts.texts.append(f"{key}: {item}")
    if key in _CODE_KEYS and isinstance(item, int | str):
        facts.codes.append(str(item)[:100].lower())
    is_text = isinstance(item, str | bytes)
    if (is_text and key in _TEXT_KEYS) or (not is_text and key in _NEST_KEYS):
        _collect(item, facts, depth=depth + 1)


def _decoded(text: str) -> Any:
    """Return the JSON that a text holds, or None; gateways pass the provider's body on as a string."""
    if len(text) > _MOST_CHARS or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict | list) else None


def _related(error: BaseException) -> Iterator[BaseException]:
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    yield from members[:_MOST_ERRORS]
    if error.__cause__ is not None:
        yield error.__cause__
    elif error.__context__ is not None and not error.__suppress_context__:
        yield error.__context__


def _attribute(of: object, name: str) -> object:
    try:
        return getattr(of, name, None)
    except Exception:  # noqa: BLE001 - a property of a foreign class may raise anything, httpx's `text` does
        return None


def _items(of: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    try:
        return list(itertools.islice(of.items(), _MOST_ITEMS))
    except Exception:  # noqa: BLE001 - a foreign mapping may raise anything
        return ()


def _string(error: BaseException) -> str:
    if len(error.args) == 1 and isinstance(error.args[0], str):
        return error.args[0][:_MOST_CHARS]
    try:
        return str(error)[:_MOST_CHARS]
    except Exception:  # noqa: BLE001 - a foreign `__str__` may raise anything
        return ""
