"""`recognise` against what providers really say; wordings are from their issue trackers, documentation and sources."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.overflow import Overflow, recognise


class APIStatusError(Exception):
    """As OpenAI's and Anthropic's SDKs make it: the decoded body, its code, and the status."""

    def __init__(self, message: str, *, status: int = 400, body: Any = None) -> None:
        super().__init__(f"Error code: {status} - {body if body is not None else message}")
        self.message = message
        self.status_code = status
        self.body = body
        self.code = body.get("code") if isinstance(body, dict) else None
        self.type = body.get("type") if isinstance(body, dict) else None


class RateLimitError(APIStatusError):
    pass


SAID: list[tuple[str, str, int | None, int | None]] = [
    # provider, what it said, input tokens that are allowed, input tokens that were sent
    ("openai", "This model's maximum context length is 4097 tokens. However, your messages resulted in 7575 tokens. Please reduce the length of the messages.", 4097, 7575),
    ("openai with functions", "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens (8000 in the messages, 545 in the functions). Please reduce the length of the messages or functions.", 8192, 8545),
    ("openai with completion", "This model's maximum context length is 4097 tokens, however you requested 4569 tokens (3545 in your prompt; 1024 for the completion). Please reduce your prompt; or completion length.", 3073, 3545),
    ("openai completion only", "This model's maximum context length is 8191 tokens, however you requested 8238 tokens (8238 in your prompt; 0 for the completion). Please reduce your prompt; or completion length.", 8191, 8238),
    ("openai responses", "Your input exceeds the context window of this model. Please adjust your input and try again.", None, None),
    ("openai configured", "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 477469 tokens. Please reduce the length of the messages.", 272000, 477469),
    ("azure", "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens. Please reduce the length of the messages.", 128000, 204308),
    ("deepseek", "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.", 122880, 122942),
    ("deepseek no completion", "this model's maximum context length is 65536 tokens. however, you requested 69648 tokens (69648 in the messages, 0 in the completion). please reduce the length of the messages or completion.", 65536, 69648),
    ("anthropic", "prompt is too long: 207791 tokens > 200000 maximum", 200000, 207791),
    ("anthropic 1m", "prompt is too long: 1000123 tokens > 1000000 maximum", 1000000, 1000123),
    ("anthropic and output", "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or `max_tokens` and try again", 191808, 199759),
    ("anthropic without ticks", "input length and max_tokens exceed context limit: 90402 + 116650 > 204648, decrease input length or max_tokens and try again", 87998, 90402),
    ("vertex anthropic", "Prompt is too long", None, None),
    ("gemini", "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).", 1048576, 1200293),
    ("vertex gemini", "Unable to submit request because the input token count is 1130000 but the model only supports up to 1048576. Reduce the input token count and try again.", 1048576, 1130000),
    ("vertex gemini short", "The input token count is 32825 but the model only supports up to 32768", 32768, 32825),
    ("dashscope", "Range of input length should be [1, 30720]", 30720, None),
    ("dashscope compatible", "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]", 983616, None),
    ("ollama", "prompt too long; exceeded max context length by 15 tokens", None, None),
    ("ollama input", "input length exceeds maximum context length", None, None),
    ("ollama embedding", "the input length exceeds the context length", None, None),
    ("ollama cloud", "context length is only 8192 tokens", 8192, None),
    ("llama.cpp", "the request exceeds the available context size, try increasing it", None, None),
    ("llama.cpp older", "the request exceeds the available context size. try increasing the context size or enable context shift", None, None),
    ("llama.cpp newer", "request (8000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096, 8000),
    ("llama-cpp-python", "Requested tokens (2285) exceed context window of 2048", 2048, 2285),
    ("gpt4all", "ERROR: The prompt size exceeds the context window size and cannot be processed.", None, None),
    ("lm studio", "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input", 4096, 15857),
    ("lm studio newer", "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input.", 4096, 13055),
    ("lm studio short", "Context size has been exceeded.", None, None),
    ("vllm", "This model's maximum context length is 131072 tokens. However, you requested 156632 tokens (152536 in the messages, 4096 in the completion). Please reduce the length of the messages or completion.", 126976, 152536),
    ("vllm messages", "This model's maximum context length is 200 tokens. However, your request has 203 input tokens. Please reduce the length of the input messages.", 200, 203),
    ("vllm output", "This model's maximum context length is 262144 tokens. However, you requested 128000 output tokens and your prompt contains at least 134145 input tokens, for a total of at least 262145 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=134145)", 134144, 134145),
    ("vllm no output", "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens. Please reduce the length of the input prompt or the number of requested output tokens.", 262144, 262145),
    ("vllm max_tokens", "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104).", 2096, 2104),
    ("vllm engine", "The prompt (total length 25938) is too long to fit into the model (context length 4096). Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.", 4096, 25938),
    ("vllm decoder", "The decoder prompt (length 21535) is longer than the maximum model length of 16384. Make sure that `max_model_len` is no smaller than the number of text tokens.", 16384, 21535),
    ("sglang", "The input (400013 tokens) is longer than the model's context length (262144 tokens).", 262144, 400013),
    ("sglang requested", "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 140000 tokens: 135904 tokens from the input messages and 4096 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.", 126976, 135904),
    ("tensorrt-llm", "Prompt length (6973) exceeds maximum input length (6144)", 6144, 6973),
    ("atlas", "Prompt too long: 5152 tokens exceeds max_seq_len 2048 (leave room for output tokens)", 2048, 5152),
    ("tgi", "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2019 `inputs` tokens and 30 `max_new_tokens`", 2018, 2019),
    ("tgi inputs", "Input validation error: `inputs` must have less than 1024 tokens. Given: 1500", 1024, 1500),
    ("mistral", "Prompt contains 50000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 32768, 50000),
    ("groq", "Please reduce the length of the messages or completion.", None, None),
    ("xai", "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131072, 537812),
    ("moonshot", "Invalid request: Your request exceeded model token limit: 262144", 262144, None),
    ("moonshot requested", "Invalid request: Your request exceeded model token limit: 256000 (requested: 310000)", 256000, 310000),
    ("together", "The input (14002 tokens) is longer than the model's context length (8193 tokens).", 8193, 14002),
    ("fireworks", "The prompt is too long: 151000, model maximum context length: 131071", 131071, 151000),
    ("bedrock", "An error occurred (ValidationException) when calling the ConverseStream operation: Input is too long for requested model.", None, None),
    ("bedrock claude", "An error occurred (ValidationException) when calling the ConverseStream operation: The model returned the following errors: prompt is too long: 903884 tokens > 200000 maximum", 200000, 903884),
    ("bedrock titan", "ValidationException: 400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9279", 8192, 9279),
    ("bedrock nova", "The number of input tokens exceeds maximum length of the model", None, None),
    ("openrouter", "This endpoint's maximum context length is 1048576 tokens. However, you requested about 1293741 tokens (1227853 of text input, 353 of tool input, 65535 in the output). Please reduce the length of either one, or use the \"middle-out\" transform to compress your prompt automatically.", 983041, 1228206),
    ("openrouter text", "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 of text input). Please reduce the length of either one, or use the \"middle-out\" transform to compress your prompt automatically.", 32768, 42832),
    ("poolside", "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", 131040, 131393),
    ("parenthesised", "Input length (265330) exceeds model's maximum context length (262144).", 262144, 265330),
    ("zhipu", "Prompt exceeds max length", None, None),
    ("zhipu chinese", "Prompt 超长", None, None),
    ("minimax", "invalid params, context window exceeds limit (2013)", None, None),
    ("siliconflow", "length of prompt_tokens (57535) must be less than max_seq_len (32768).", 32768, 57535),
    ("volcengine", "Total tokens of image and text exceed max message tokens. Request id: 0217", None, None),
    ("copilot", "prompt token count of 138291 exceeds the limit of 128000", 128000, 138291),
    ("github models", "Request body too large for gpt-4o model. Max size: 8000 tokens.", 8000, None),
    ("cohere", "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using a shorter prompt.", 4081, 4292),
    ("cloudflare", "3010: AiError: The estimated number of input and maximum output tokens (35000) exceeded this model context window limit (24000)", 24000, 35000),
    ("replicate", "Your input is too long. Max input length is 4096 tokens, but you supplied 5441 tokens.", 4096, 5441),
    ("watsonx", "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model", 4096, 5000),
    ("proxy", "model max length exceeded, max length: 8192", 8192, None),
    ("omlx", "Prompt has 5000 tokens, but the configured context size is 4096 tokens", 4096, 5000),
    ("separators", "This model's maximum context length is 1,048,576 tokens. However, you requested about 1,293,741 tokens.", 1048576, 1293741),
    ("gateway in chinese", "请求失败：输入长度超过模型上限", None, None),
]  # fmt: skip

OTHER: list[tuple[str, str, int]] = [
    ("groq tokens a minute", "Request too large for model `llama-3.3-70b-versatile` in organization `org_x` service tier `on_demand` on tokens per minute (TPM): Limit 12000, Requested 14137, please reduce your message size and try again.", 413),
    ("openai tokens a minute", "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. The input or output tokens must be reduced in order to run successfully.", 429),
    ("openai rate limit", "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 29000, Requested 5000. Please try again in 8s.", 429),
    ("anthropic rate limit", "This request would exceed your organization's rate limit of 40,000 input tokens per minute.", 429),
    ("anthropic long context", "Extra usage is required for long context requests.", 429),
    ("bedrock throttling", "ThrottlingException: Too many tokens, please wait before trying again.", 400),
    ("too many requests", "Too many requests: the prompt tokens limit is reached", 400),
    ("gemini quota", "You exceeded your current quota, please check your plan and billing details. Quota exceeded for metric: generate_content_input_token_count", 429),
    ("openai output", "max_tokens is too large: 10000. This model supports at most 4096 completion tokens, whereas you provided 10000.", 400),
    ("anthropic output", "max_tokens: 1000000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-20250514", 400),
    ("dashscope output", "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]", 400),
    ("groq output", "max_tokens must be less than or equal to 16384, the maximum value for max_tokens is less than the context_window for this model", 400),
    ("vllm output fills the window", "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context length is 20000 tokens and your request has 16614 input tokens (64000 > 20000 - 16614). None", 400),
    ("deepseek output fills the window", "This model's maximum context length is 8192 tokens. However, you requested 10010 tokens (10 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.", 400),
    ("openai string", "Invalid 'messages[17].content': string too long. Expected a string with maximum length 1048576, but got a string with length 1744259 instead.", 400),
    ("openai call id", "Invalid 'input[95].call_id': string too long. Expected a string with maximum length 64, but got a string with length 116 instead.", 400),
    ("json reader", "String value length (20054016) exceeds the maximum allowed (20000000, from `StreamReadConstraints.getMaxStringLength()`)", 400),
    ("nginx", "<html><head><title>413 Request Entity Too Large</title></head></html>", 413),
    ("anthropic image", "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes", 400),
    ("anthropic image dimensions", "messages.3.content.0.image: image dimensions exceed max allowed size: 8000 pixels", 400),
    ("gemini payload", "Request payload size exceeds the limit: 20971520 bytes.", 400),
    ("too many images", "Too many images in request: 130. Max is 100.", 400),
    ("auth", "Incorrect API key provided: sk-x. You can find your API key at https://platform.openai.com/account/api-keys.", 401),
    ("model missing", "The model `gpt-9` does not exist or you do not have access to it.", 404),
    ("azure filter", "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry.", 400),
    ("dashscope inspection", "<400> InternalError.Algo.DataInspectionFailed: Input data may contain inappropriate content.", 400),
    ("deadline", "rpc error: code = DeadlineExceeded desc = context deadline exceeded", 504),
    ("context cancelled", "context canceled", 499),
    ("tool pairs", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.", 400),
    ("stop sequences", "Too many stop sequences: 8. Max is 4.", 400),
    ("field", "input is too long for this field", 400),
    ("metadata", "Invalid 'metadata': too many properties. Expected at most 16 properties, but got 20 properties instead.", 400),
    ("overloaded", "Overloaded", 529),
    ("server", "The server had an error while processing your request. Sorry about that!", 500),
    ("balance", "Insufficient Balance", 402),
    ("bad schema", "Invalid schema for function 'search': context must be an object", 400),
    ("tool", "Tool 'summarise' failed: document exceeds maximum context length of 512 tokens", 400),
    ("disk", "[Errno 27] File too large", 500),
]  # fmt: skip


@pytest.mark.parametrize(("said", "limit", "needed"), [each[1:] for each in SAID], ids=[each[0] for each in SAID])
def test_what_a_provider_says_of_a_too_large_request_is_recognised_with_its_numbers(said, limit, needed):
    for error in (
        APIStatusError(said, body={"message": said}),
        ValueError(said),
        RuntimeError(f"stream failed: {said}"),
    ):
        assert Overflow(limit_tokens=limit, needed_tokens=needed, message="") == _without_message(recognise(error))


@pytest.mark.parametrize(("said", "status"), [each[1:] for each in OTHER], ids=[each[0] for each in OTHER])
def test_what_a_provider_says_of_anything_else_is_not_taken_for_an_overflow(said, status):
    assert recognise(APIStatusError(said, status=status, body={"message": said})) is None
    assert recognise(Exception(said)) is None


def _without_message(found: Overflow | None) -> Overflow | None:
    return found and Overflow(limit_tokens=found.limit_tokens, needed_tokens=found.needed_tokens, message="")


BODIES: list[tuple[str, Any, int | None, int | None]] = [
    ("openai code alone", {"code": "context_length_exceeded", "message": ""}, None, None),
    ("openai inner", {"message": "x", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}, None, None),
    ("anthropic", {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 205000 tokens > 200000 maximum"}, "request_id": "req_1"}, 200000, 205000),
    ("anthropic 413", {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}, None, None),
    ("vllm", {"object": "error", "message": "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens.", "type": "BadRequestError", "param": None, "code": 400}, 4096, 5000),
    ("gemini", {"error": {"code": 400, "message": "The input token count (81881) exceeds the maximum number of tokens allowed (65536).", "status": "INVALID_ARGUMENT"}}, 65536, 81881),
    ("gemini in a list", [{"error": {"code": 400, "message": "The input token count (81881) exceeds the maximum number of tokens allowed (65536)."}}], 65536, 81881),
    ("llama.cpp", {"error": {"code": 500, "message": "the request exceeds the available context size.", "type": "exceed_context_size_error", "n_prompt_tokens": 14429, "n_ctx": 8192}}, 8192, 14429),
    ("lm studio", {"error": "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context length of only 7866 tokens"}, 7866, 10136),
    ("zhipu", {"error": {"code": "1261", "message": "您的输入太多了"}}, None, None),
    ("siliconflow", {"code": 20015, "message": "length of prompt_tokens (143644) must be less than max_seq_len (65536).", "data": None}, 65536, 143644),
    ("openrouter raw", {"message": "Provider returned error", "code": 400, "metadata": {"raw": '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}', "provider_name": "Anthropic"}}, 200000, 213462),
    ("cloudflare", {"success": False, "errors": [{"code": 5021, "message": "The estimated number of input and maximum output tokens (8810) exceeded this model context window limit (8192)"}]}, 8192, 8810),
    ("github models", {"error": {"code": "tokens_limit_reached", "message": "Request body too large for gpt-4o model. Max size: 8000 tokens."}}, 8000, None),
    ("bytes", b'{"error":{"message":"prompt is too long: 5 tokens > 3 maximum"}}', None, None),
]  # fmt: skip


@pytest.mark.parametrize(("body", "limit", "needed"), [each[1:] for each in BODIES], ids=[each[0] for each in BODIES])
def test_bodies_of_every_shape_are_read(body, limit, needed):
    found = recognise(APIStatusError("Error code: 400", body=body))

    assert Overflow(limit_tokens=limit, needed_tokens=needed, message="") == _without_message(found)


OTHER_BODIES = [
    ("groq", 413, {"message": "Request too large for model", "type": "tokens", "code": "rate_limit_exceeded"}),
    ("a gateway's rate limit in HTTP 400", 400, {"code": "rate_limit_exceeded", "message": "maximum context length is 8 tokens"}),
    ("a gateway's 429 in HTTP 200", 200, {"error": {"code": 429, "message": "too many input tokens"}}),
    ("filter", 400, {"code": "content_filter", "message": "prompt is too long for the filter"}),
    ("string", 400, {"code": "string_above_max_length", "message": "Invalid 'messages[3].content'"}),
    ("an echo of the request", 422, {"detail": [{"type": "missing", "loc": ["body", "model"], "msg": "Field required", "input": {"messages": [{"content": "prompt is too long: 9000 tokens > 8000 maximum"}]}}]}),
    ("an echo in the message", 400, {"message": "[{'type': 'missing', 'msg': 'Field required', 'input': {'content': 'prompt is too long'}}]"}),
    ("no body", 413, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "body"), [each[1:] for each in OTHER_BODIES], ids=[each[0] for each in OTHER_BODIES]
)
def test_bodies_that_say_something_else_are_not_taken_for_an_overflow(status, body):
    assert recognise(APIStatusError("Error", status=status, body=body)) is None


def test_a_rate_limit_class_is_never_an_overflow_whatever_it_says():
    assert recognise(RateLimitError("maximum context length is 10 tokens", status=400)) is None


def test_an_error_event_in_the_middle_of_a_stream_is_recognised():
    class APIError(Exception):  # OpenAI's, without a status: `error` of the event is the body
        message = "Your input exceeds the context window of this model. Please adjust your input and try again."
        code = "context_length_exceeded"
        body = None

    assert Overflow(limit_tokens=None, needed_tokens=None, message=APIError.message) == recognise(APIError())


def test_a_grpc_error_is_read_by_its_text():
    class AioRpcError(Exception):  # of xAI's SDK: `code` and `details` are methods
        def code(self):
            return "INVALID_ARGUMENT"

        def details(self):
            return "unread"

        def __str__(self):
            return (
                "<AioRpcError of RPC that terminated with:\n\tstatus = StatusCode.INVALID_ARGUMENT\n\tdetails = "
                '"This model\'s maximum prompt length is 131072 but the request contains 537812 tokens."\n>'
            )

    assert _without_message(recognise(AioRpcError())) == Overflow(limit_tokens=131072, needed_tokens=537812, message="")


def test_a_botocore_error_is_read_by_its_response():
    error = Exception("An error occurred")
    error.response = {  # type: ignore[attr-defined] # as botocore sets it
        "Error": {"Code": "ValidationException", "Message": "Input is too long for requested model."},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }

    assert recognise(error) == Overflow(
        limit_tokens=None, needed_tokens=None, message="Input is too long for requested model."
    )


def test_an_http_error_is_read_by_the_text_of_its_response():
    error = Exception("Client error '400 Bad Request' for url 'http://x'")
    error.response = SimpleNamespace(
        status_code=400, text='{"error":{"message":"prompt is too long: 30 tokens > 20 maximum"}}'
    )  # type: ignore[attr-defined] # as httpx sets it

    assert _without_message(recognise(error)) == Overflow(limit_tokens=20, needed_tokens=30, message="")


@pytest.mark.parametrize(
    "name", ["ContextWindowExceededError", "ContextOverflowError", "ContextWindowOverflowException"]
)
def test_a_library_that_has_a_class_for_it_is_believed(name):
    assert recognise(type(name, (Exception,), {})("too much")) == Overflow(
        limit_tokens=None, needed_tokens=None, message="too much"
    )


def test_causes_contexts_and_members_of_a_group_are_read():
    overflow = APIStatusError("prompt is too long: 30 tokens > 20 maximum")
    wrapped = RuntimeError("model call failed")
    wrapped.__cause__ = overflow
    during = RuntimeError("while handling")
    during.__context__ = wrapped

    expected = recognise(overflow)

    assert expected is not None
    assert recognise(during) == expected
    assert recognise(ExceptionGroup("unhandled errors", [KeyError("x"), during])) == expected


def test_a_context_that_was_suppressed_is_not_read():
    error = RuntimeError("retry failed")
    error.__context__ = APIStatusError("prompt is too long")
    error.__suppress_context__ = True

    assert recognise(error) is None


def test_a_rate_limit_that_follows_an_overflow_of_another_model_is_a_rate_limit():
    error = RateLimitError("Rate limit reached", status=429)
    error.__context__ = APIStatusError("prompt is too long")

    assert recognise(error) is None


def test_a_chain_of_causes_that_bites_its_tail_ends():
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first

    assert recognise(first) is None


@pytest.mark.parametrize(
    "name", ["ToolJSONDecodeError", "StructuredOutputError", "ValidationError", "ToolInterruptedError"]
)
def test_an_error_that_quotes_content_is_not_judged_by_what_it_quotes(name):
    error = type(name, (ValueError,), {})("cannot parse: 'prompt is too long: 9000 tokens > 8000 maximum'")

    assert recognise(error) is None


def test_numbers_that_cannot_be_a_window_are_left_out():
    assert recognise(ValueError("prompt is too long: 5 tokens > 3 maximum")) == Overflow(
        limit_tokens=None, needed_tokens=None, message="prompt is too long: 5 tokens > 3 maximum"
    )


class _Odd(Exception):  # noqa: N818 - nothing is expected of it
    def __str__(self):
        raise RuntimeError("no text")

    def __getattr__(self, name):
        raise RuntimeError(name)

    @property
    def body(self):
        raise RuntimeError("no body")

    @property
    def response(self):
        raise RuntimeError("no response")


def test_odd_objects_never_make_it_raise():
    deep: dict[str, Any] = {}
    deep["error"] = deep
    for error in (
        _Odd(),
        _Odd(1, 2),
        APIStatusError("x", body=deep),
        APIStatusError("x", body="[" * 3000),
        APIStatusError("x", body=["x"] * 100_000),
        APIStatusError("x", body={"message": 5, "error": [None, 1.5, {"code": object()}]}),
        KeyboardInterrupt(),
        BaseExceptionGroup("g", [KeyboardInterrupt(), SystemExit(3)]),
        Exception(),
        Exception("a" * 10_000_000),
    ):
        assert recognise(error) is None


@given(st.text('abc 123\n"{中文', max_size=200), st.sampled_from([each[1] for each in SAID]))
def test_a_wording_is_found_whatever_follows_it(tail, said):
    assert recognise(ValueError(f"{said}\n{tail}")) is not None


@pytest.mark.parametrize(
    "unit", ["exceeds the ", "maximum context length is ", "1,234", "(9", "tokens ", "a", "\n", "输入"]
)
def test_time_is_bounded_whatever_the_text(unit):
    error = ValueError(unit * (1_000_000 // len(unit)))

    before = time.thread_time()
    recognise(error)

    assert time.thread_time() - before < 0.5


def test_only_the_beginning_of_a_message_is_looked_at():
    assert recognise(ValueError("x" * 5000 + "prompt is too long")) is None


def test_the_message_is_short_enough_to_show():
    found = recognise(ValueError("prompt is too long. " + "x" * 3000))

    assert found is not None
    assert len(found.message) == 500
