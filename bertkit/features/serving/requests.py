"""Bodies of requests, as pydantic models, their limits, and the errors that requests are answered with.

Unknown keys of a body are refused, except those that clients send to other servers.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, create_model

from bertkit.data.reading.row_files import unique_keys
from bertkit.runtime.errors import DataError, RecipeError, shortened

_MOST_ERRORS = 5
_LONGEST_PLACE = 80

Body = TypeVar("Body", bound=BaseModel)
Text = Annotated[str, StringConstraints(strict=True)]
# Lists are refused at their first fault: the million faults that a body has room for would take seconds and 1 GB.
Texts = Annotated[list[Text], Field(min_length=1, fail_fast=True)]
Direction = Literal["right", "Right"]  # texts are truncated at their end, as in training


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on requests and batches.

    Attributes:
        max_batch_tokens: tokens of the requests that are computed together, about; a longer request is alone.
        max_concurrent_requests: requests that are taken at the same time; more are answered with 429.
        max_client_batch_size: texts of a request.
        max_request_tokens: tokens of a request, with special tokens, over all its texts, and for predictions over their
            windows.
        max_body_bytes: bytes of a body.
        body_timeout: seconds for the arrival of a body.
        shutdown_timeout: seconds that requests have to end after SIGTERM or Ctrl-C.

    Raises:
        RecipeError: one of them is not positive.
    """

    max_batch_tokens: int = 4096
    max_concurrent_requests: int = 512
    max_client_batch_size: int = 32
    max_request_tokens: int = 32768
    max_body_bytes: int = 2_000_000
    body_timeout: float = 30.0
    shutdown_timeout: float = 30.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise RecipeError(f"--{field.name.replace('_', '-')}: expected a positive number, got {value}")


class RequestError(Exception):
    """An error that is answered with its message, and the type that text-embeddings-inference gives it.

    Attributes:
        status: HTTP status.
        error_type: value of ``error_type`` in the answer.
        headers: additional headers of the answer.
    """

    status = 422
    error_type = "Validation"
    headers: Mapping[str, str] = {}


class InvalidRequest(RequestError):
    """The body is no JSON, has a wrong form, or texts that the task does not take."""


class TooLong(RequestError):
    """A body, a text or the number of texts is over its limit."""

    status = 413


class BodyTooLarge(TooLong):
    """The body is not read to its end, so the connection is closed."""

    headers: Mapping[str, str] = {"Connection": "close"}


class WrongContentType(RequestError):
    """The body is not declared as JSON."""

    status = 415


class SlowBody(RequestError):
    """The body has not arrived in time."""

    status = 408
    headers: Mapping[str, str] = {"Connection": "close"}


class Unauthorized(RequestError):
    """The bearer token is missing or wrong."""

    status = 401
    error_type = "Unauthorized"
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class NotServed(RequestError):
    """The checkpoint cannot answer requests of this route, or its model failed."""

    status = 424
    error_type = "Backend"


class Overloaded(RequestError):
    """Too many requests are waiting."""

    status = 429
    error_type = "Overloaded"
    headers: Mapping[str, str] = {"Retry-After": "1"}


class Unavailable(RequestError):
    """The server ends, or nothing computes requests any more."""

    status = 503
    error_type = "Unhealthy"


class ServerFault(RequestError):
    """A bug in bertkit or in a library."""

    status = 500
    error_type = "Internal"


class Strict(BaseModel):
    """Base class of bodies and their parts; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, strict=True)


class _Inference(Strict):
    """Keys of the Inference API that other servers use."""

    truncate: bool | None = None
    options: dict[str, Any] | None = None
    model: str | None = None


class NoParameters(Strict):
    """``parameters`` of routes and tasks that have none."""


class EmbedBody(Strict):
    """POST /embed of text-embeddings-inference."""

    inputs: Text | Texts
    normalize: bool = True
    truncate: bool | None = None
    truncation_direction: Direction | None = None
    prompt_name: None = None
    dimensions: int | None = None
    encoding_format: Literal["float"] | None = None


class FeatureBody(EmbedBody):
    """POST / for feature extraction: vectors are normalized only if asked for, as `bertkit embed` gives them."""

    normalize: bool = False
    parameters: NoParameters | None = None
    options: dict[str, Any] | None = None
    model: str | None = None


class Sentences(Strict):
    """A sentence, and others to compare it with."""

    source_sentence: Text
    sentences: Texts


class SimilarityBody(_Inference):
    """POST /similarity, and / for sentence similarity."""

    inputs: Sentences
    parameters: NoParameters | None = None


class FillParameters(Strict):
    """``parameters`` of masked-token prediction."""

    top_k: Annotated[int, Field(ge=1, le=100)] = 5
    targets: Texts | None = None


class FillBody(_Inference):
    """POST / for a masked language model."""

    inputs: Text | Texts
    parameters: FillParameters | None = None


class PredictBody(Strict):
    """POST /predict of text-embeddings-inference: a text, a pair, or a list of lists of one or two texts."""

    inputs: (
        Text
        | Annotated[list[Text], Field(min_length=1, max_length=2)]
        | Annotated[list[Annotated[list[Text], Field(min_length=1, max_length=2)]], Field(min_length=1, fail_fast=True)]
    )
    raw_scores: bool = False
    truncate: bool | None = None
    truncation_direction: Direction | None = None


class RerankBody(Strict):
    """POST /rerank of text-embeddings-inference."""

    query: Text
    texts: Texts
    raw_scores: bool = False
    return_text: bool = False
    truncate: bool | None = None
    truncation_direction: Direction | None = None


class OpenAIBody(BaseModel):
    """POST /v1/embeddings of OpenAI; its clients send more keys, which have no effect."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True, strict=True)

    input: Text | Texts
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None


def task_body(one_input: Any, parameters: type[BaseModel]) -> type[BaseModel]:
    """Returns the model of POST / for a task.

    Args:
        one_input: `bertkit.features.serving.served.Served.input_type`.
        parameters: `bertkit.features.serving.served.Served.parameters`.
    """
    several: Any = Annotated[list[one_input], Field(min_length=1, fail_fast=True)]
    of_request: Any = parameters | None
    return create_model(
        "TaskBody",
        __base__=_Inference,
        inputs=(one_input | several, ...),
        parameters=(of_request, None),
    )


def parse_body(body: bytes, model: type[Body]) -> Body:
    """Parses JSON to an instance of ``model``.

    Raises:
        InvalidRequest: the body is no JSON, has another form, or a key twice; the message repeats no texts.
    """
    try:
        content = model.model_validate_json(body)  # before the keys are compared, as it limits the depth
        json.loads(body, object_pairs_hook=unique_keys)
        return content
    except DataError as error:
        raise InvalidRequest(str(error)) from None
    except ValidationError as error:
        faults = []
        for each in error.errors(include_url=False, include_context=False, include_input=False):
            place = shortened(".".join(map(str, each["loc"])), _LONGEST_PLACE)
            faults.append(f"{place}: {each['msg']}" if place else each["msg"])
        more = f"; and {len(faults) - _MOST_ERRORS} more" if len(faults) > _MOST_ERRORS else ""
        raise InvalidRequest("; ".join(faults[:_MOST_ERRORS]) + more) from None
