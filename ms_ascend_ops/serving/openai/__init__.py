"""Implements OpenAI's API (`/v1/...`) for language models.

Source: https://platform.openai.com/docs/api-reference. Fields that are not supported are refused unless they have the
value that changes nothing. Beside OpenAI's there are top_k, min_p and repetition_penalty.
"""

from ms_ascend_ops.serving.openai.routes import router

__all__ = ["router"]
