"""Runs language models of the LLaMA family, from a checkpoint to tokens.

    from ms_ascend_ops.llm import LanguageModel

    model = LanguageModel.from_file("model.gguf")
    print(model.generate("The capital of France is", max_tokens=16).text)

The names are imported when they are used. Nothing of the package imports this but the commands; on a CPU it needs no
MindSpore. `pip install 'ms_ascend_ops[llm]'` brings what it needs besides.
"""

from ms_ascend_ops.lazy import lazy_attributes

_ORIGINS = {
    "ChatTemplate": "ms_ascend_ops.llm.chat_template",
    "LanguageModel": "ms_ascend_ops.llm.model",
    "ModelConfig": "ms_ascend_ops.llm.config",
    "Sampling": "ms_ascend_ops.llm.sampling",
    "Scheduler": "ms_ascend_ops.llm.scheduler",
    "open_checkpoint": "ms_ascend_ops.llm.checkpoints",
}

__all__ = ["ChatTemplate", "LanguageModel", "ModelConfig", "Sampling", "Scheduler", "open_checkpoint"]


__getattr__ = lazy_attributes(__name__, _ORIGINS)
