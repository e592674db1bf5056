"""What a request for embeddings asks, checked before anything is embedded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal, TypeVar

InputType = Literal["document", "query"]
_T = TypeVar("_T", bound=str)

_FORMATS = ("float", "base64")
_INPUT_TYPES: tuple[InputType, ...] = ("document", "query")


class RequestError(Exception):
    """A request that is answered with an error, in the form that OpenAI's clients read."""

    def __init__(self, status: HTTPStatus, message: str, *, code: str, param: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = {
            "error": {
                "message": message,
                "type": "server_error" if status >= 500 else "invalid_request_error",
                "param": param or None,
                "code": code,
            }
        }


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most that one request may hold.

    Attributes:
        inputs: texts.
        body_bytes: of the request.
        batch_tokens: tokens of the longest text times the number of texts.
    """

    inputs: int = 64
    body_bytes: int = 4_000_000
    batch_tokens: int = 65_536


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """A request that can be answered.

    Attributes:
        texts: one at least.
        is_base64: vectors as base64 of little-endian float32 instead of JSON numbers.
        input_type: `query` for a model that encodes queries otherwise than documents.
    """

    texts: list[str]
    is_base64: bool
    input_type: InputType


def parse_request(
    body: bytes, *, model: str, dimensions: int, budgets: Budgets
) -> EmbeddingRequest:
    """Read the body of a request.

    Raises:
        RequestError: it is no such request, or over a budget; 400, 404 or 422.
    """
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise _bad("the body is not JSON", "invalid_json") from exc
    if not isinstance(asked, dict):
        raise _bad("the body is not a JSON object", "invalid_json")
    if asked.get("model") != model:
        raise RequestError(
            HTTPStatus.NOT_FOUND,
            f"the model {asked.get('model')!r} is not served here, {model!r} is",
            code="model_not_found",
            param="model",
        )
    encoding = _choice(asked, "encoding_format", _FORMATS)
    input_type = _choice(asked, "input_type", _INPUT_TYPES)
    if asked.get("dimensions", dimensions) not in (dimensions, None):
        raise _over(f"the model gives {dimensions} dimensions and no other number", "dimensions")
    return EmbeddingRequest(_texts(asked.get("input"), budgets), encoding == "base64", input_type)


def _texts(given: object, budgets: Budgets) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts:
        raise _bad("input must be a text or an array of texts", "invalid_type", "input")
    if len(texts) > budgets.inputs:
        raise _over(f"at most {budgets.inputs} inputs a request, not {len(texts)}", "input")
    if not all(isinstance(text, str) for text in texts):
        raise _bad(
            "input must hold texts: token numbers belong to the tokenizer of another model",
            "invalid_type",
            "input",
        )
    return texts


def require_tokens(counts: list[int], limit: int, budgets: Budgets) -> None:
    """Refuse what the model would cut, and a batch over its budget.

    Args:
        counts: tokens of each text, special tokens included.
        limit: of one text.

    Raises:
        RequestError: 422; nothing is cut in silence.
    """
    for index, count in enumerate(counts):
        if count > limit:
            raise _over(
                f"input {index} has {count} tokens, the model takes {limit} (special tokens included)",
                "input",
            )
    padded = max(counts) * len(counts)
    if padded > budgets.batch_tokens:
        raise _over(
            f"the longest input times the number of inputs is {padded} tokens, at most {budgets.batch_tokens} a request",
            "input",
        )


def _choice(asked: dict[str, object], name: str, known: tuple[_T, ...]) -> _T:
    """One of the known values; the first if none is given."""
    value = asked.get(name)
    if value is None:
        return known[0]
    for one in known:
        if value == one:
            return one
    raise _bad(f"{name} must be one of {', '.join(known)}", "invalid_value", name)


def _bad(message: str, code: str, param: str = "") -> RequestError:
    return RequestError(HTTPStatus.BAD_REQUEST, message, code=code, param=param)


def _over(message: str, param: str) -> RequestError:
    return RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, message, code="over_budget", param=param)
