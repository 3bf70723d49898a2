"""What providers answer to a request that is larger than the window: real HTTP bodies, and the SDKs' own exceptions."""

import copy
import json
from importlib import import_module
from typing import Any, Final, Literal

Provider = Literal[
    "openai", "azure", "anthropic", "deepseek", "dashscope", "moonshot", "vllm", "llamacpp", "gemini", "ollama"
]
"""Whose wording a refusal has; all but Anthropic, Gemini and Ollama speak OpenAI's protocol."""

_BODIES: Final[dict[str, dict[str, Any]]] = {
    "openai": {
        "error": {
            "message": (
                "This model's maximum context length is {limit} tokens. However, your messages resulted in {needed} "
                "tokens. Please reduce the length of the messages."
            ),
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    },
    "azure": {
        "error": {
            "message": (
                "This model's maximum context length is {limit} tokens. However, you requested {needed} tokens "
                "({needed} in the messages, 0 in the completion). Please reduce the length of the messages or "
                "completion."
            ),
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    },
    "anthropic": {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: {needed} tokens > {limit} maximum",
        },
        "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
    },
    "deepseek": {
        "error": {
            "message": (
                "This model's maximum context length is {limit} tokens. However, you requested {needed} tokens "
                "({needed} in the messages, 0 in the completion). Please reduce the length of the messages or "
                "completion."
            ),
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_request_error",
        }
    },
    "dashscope": {
        "error": {
            "message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, {limit}]",
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_parameter_error",
        }
    },
    "moonshot": {
        "error": {
            "message": "Invalid request: Your request exceeded model token limit: {limit}",
            "type": "invalid_request_error",
        }
    },
    "vllm": {
        "object": "error",
        "message": (
            "This model's maximum context length is {limit} tokens. However, you requested {needed} tokens in the "
            "messages, Please reduce the length of the messages."
        ),
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    },
    "llamacpp": {
        "error": {
            "code": 400,
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": "{needed}",
            "n_ctx": "{limit}",
        }
    },
    "gemini": {
        "error": {
            "code": 400,
            "message": "The input token count ({needed}) exceeds the maximum number of tokens allowed ({limit}).",
            "status": "INVALID_ARGUMENT",
        }
    },
    "ollama": {"error": "prompt too long; exceeded max context length by {over} tokens"},
}

_CLASSES: Final = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}
"""HTTP status to the name of the exception, in both SDKs."""
_SERVER_ERRORS: Final = 500


class ClientError(Exception):
    """Stands in for the exception of Google's SDK where that is not installed."""

    def __init__(self, code: int, response_json: dict[str, Any]) -> None:
        self.code = code
        self.details = response_json
        self.status: str = response_json["error"]["status"]
        self.message: str = response_json["error"]["message"]
        super().__init__(f"{code} {self.status}. {response_json}")


class ResponseError(Exception):
    """Stands in for the exception of Ollama's SDK where that is not installed."""

    def __init__(self, error: str, status_code: int) -> None:
        self.error: str = json.loads(error)["error"]
        self.status_code = status_code
        super().__init__(self.error)


def _class_of(module: str, stand_in: type[Exception]) -> Any:
    """Return the class of an SDK that has the name of its stand-in, or the stand-in where there is no such SDK."""
    try:
        return getattr(import_module(module), stand_in.__name__)
    except ImportError:
        return stand_in


def overflow_body(provider: Provider, *, limit_tokens: int, needed_tokens: int) -> dict[str, Any]:
    """Return the JSON body of a provider's HTTP 400 for a request over the window.

    Raises:
        ValueError: The provider's wording is not known.
    """
    if provider not in _BODIES:
        msg = f"no overflow body of provider {provider!r}: use one of {', '.join(_BODIES)}"
        raise ValueError(msg)
    body: dict[str, Any] = copy.deepcopy(_BODIES[provider])
    inner = body.get("error")
    for part in (body, inner if isinstance(inner, dict) else {}):
        for key, value in part.items():
            if value in ("{needed}", "{limit}"):
                part[key] = needed_tokens if value == "{needed}" else limit_tokens
            elif isinstance(value, str) and key in {"message", "error"}:
                part[key] = value.format(limit=limit_tokens, needed=needed_tokens, over=needed_tokens - limit_tokens)
    return body


def overflow_error(provider: Provider, *, limit_tokens: int, needed_tokens: int) -> Exception:
    """Return the exception that the provider's SDK raises for that body.

    It is `openai.` or `anthropic.BadRequestError`; for Gemini `google.genai.errors.ClientError` and for Ollama
    `ollama.ResponseError`, or where the SDK is not installed an exception of the same name and attributes.
    """
    body = overflow_body(provider, limit_tokens=limit_tokens, needed_tokens=needed_tokens)
    if provider == "gemini":
        gemini: Exception = _class_of("google.genai.errors", ClientError)(400, body)
        return gemini
    if provider == "ollama":
        ollama: Exception = _class_of("ollama", ResponseError)(json.dumps(body), 400)
        return ollama
    return sdk_error("anthropic" if provider == "anthropic" else "openai", status=400, body=body)


def sdk_error(sdk: Literal["openai", "anthropic"], *, status: int, body: dict[str, Any]) -> Exception:
    """Return the exception that an SDK's client makes of an HTTP answer.

    Args:
        sdk: Whose exception.
        status: HTTP status, 400 or above.
        body: The decoded JSON body.
    """
    module = import_module(sdk)
    # The SDKs moved from httpx to its successor; the exception wants a response of the library that its client is of.
    http = next(
        import_module(base.__module__.partition(".")[0])
        for base in module.DefaultAsyncHttpxClient.__mro__
        if base.__name__ == "AsyncClient"
    )
    request = http.Request("POST", "https://provider.invalid/v1/chat/completions")
    response = http.Response(status, request=request, json=body, headers={"x-request-id": "req_1"})
    kind = getattr(module, _CLASSES.get(status, "APIStatusError" if status < _SERVER_ERRORS else "InternalServerError"))
    # OpenAI's client unwraps the body's "error", Anthropic's does not.
    inner = body.get("error", body) if sdk == "openai" else body
    error: Exception = kind(f"Error code: {status} - {body}", response=response, body=inner)
    return error
