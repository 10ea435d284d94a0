"""Implements `/v1/embeddings`: a text as a vector."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import numpy as np
from fastapi import Request
from fastapi.responses import JSONResponse

from ms_ascend_ops.serving.errors import BadRequest
from ms_ascend_ops.serving.http import answered
from ms_ascend_ops.serving.openai.fields import check_known, integer, model_of
from ms_ascend_ops.serving.openai.prompts import all_texts, prompt_lists
from ms_ascend_ops.serving.service import Version

__all__ = ["embeddings", "model_of"]

_MOST_INPUTS = 64


async def embeddings(request: Request, version: Version, fields: dict[str, Any]) -> JSONResponse:
    """Compute the mean of the states behind the last layer, of length 1.

    Raises:
        ServingError: a field is wrong, or the model has no states.
    """
    check_known(fields, ("model", "input", "encoding_format", "dimensions"))
    form = fields.get("encoding_format") or "float"
    if form not in ("float", "base64"):
        raise BadRequest(f"encoding_format must be float or base64, got {form!r:.40}", "encoding_format")
    model = version.language_model
    if not hasattr(model.executor, "states"):
        raise BadRequest(f"{version.name} is a bundle, which has no states to make embeddings of", "model")
    size = model.config.hidden
    size = integer(fields, "dimensions", size, 1, size) or size
    prompts, _ = await asyncio.to_thread(prompt_lists, version, fields.get("input"), _MOST_INPUTS, "input", False)
    for prompt in prompts:
        if not 1 <= len(prompt) < model.executor.context:
            raise BadRequest(
                f"each input must have 1 to {model.executor.context - 1} tokens, got {len(prompt)}", "input"
            )
    with version.used():
        generations = version.generate([model.request(prompt, 1, embed=True) for prompt in prompts])
        try:
            await answered(request, all_texts(generations, version.options.timeout_s))
        finally:
            for generation in generations:
                generation.cancel()
    data = []
    for index, generation in enumerate(generations):
        state = np.asarray(generation.request.embedding, np.float64)[:size]
        vector = (state / max(float(np.linalg.norm(state)), 1e-30)).astype("<f4")
        value = vector.tolist() if form == "float" else base64.b64encode(vector.tobytes()).decode()
        data.append({"object": "embedding", "index": index, "embedding": value})
    count = sum(map(len, prompts))
    usage = {"prompt_tokens": count, "total_tokens": count}
    return JSONResponse({"object": "list", "data": data, "model": fields["model"], "usage": usage})
