"""What providers answer to a request that is larger than the window: real HTTP bodies, and the SDKs' own exceptions."""

import copy
from importlib import import_module
from typing import Any, Final, Literal

Provider = Literal["openai", "azure", "anthropic", "deepseek", "dashscope", "moonshot", "vllm", "llamacpp"]
"""Whose wording a refusal has; all but Anthropic speak OpenAI's protocol."""

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


def overflow_body(provider: Provider, *, limit_tokens: int, needed_tokens: int) -> dict[str, Any]:
    """Return the JSON body of a provider's HTTP 400 for a request over the window.

    Raises:
        ValueError: The provider's wording is not known.
    """
    if provider not in _BODIES:
        msg = f"no overflow body of provider {provider!r}: use one of {', '.join(_BODIES)}"
        raise ValueError(msg)
    body: dict[str, Any] = copy.deepcopy(_BODIES[provider])
    for part in (body, body.get("error", {})):
        for key, value in part.items():
            if value in ("{needed}", "{limit}"):
                part[key] = needed_tokens if value == "{needed}" else limit_tokens
            elif key == "message":
                part[key] = value.format(limit=limit_tokens, needed=needed_tokens)
    return body


def overflow_error(provider: Provider, *, limit_tokens: int, needed_tokens: int) -> Exception:
    """Return the exception that the provider's SDK raises for that body: `openai.` or `anthropic.BadRequestError`."""
    body = overflow_body(provider, limit_tokens=limit_tokens, needed_tokens=needed_tokens)
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
