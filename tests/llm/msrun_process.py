"""What each process of tests/llm/test_msrun.py does: tokens with a part of every layer, then steps of training."""

import json
import sys
from pathlib import Path

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.model import LanguageModel
from ms_ascend_ops.llm.sampling import Sampling

PROMPTS = [[5, 9, 200, 31], [7, 7, 1]]


def tokens(path, **options):
    model = LanguageModel.from_file(path, context=64, **options)
    greedy = [list(model.generate(prompt, 6).tokens) for prompt in PROMPTS]
    drawn = list(model.generate(PROMPTS[0], 6, Sampling(temperature=1.0, seed=None if model.group else 1)).tokens)
    return greedy, drawn, model.group


def losses(path, group=None):
    from ms_ascend_ops.llm.finetune.adapter import Lora  # noqa: PLC0415
    from ms_ascend_ops.llm.finetune.network import TrainedNetwork  # noqa: PLC0415
    from ms_ascend_ops.llm.finetune.training import Training, train  # noqa: PLC0415
    from tests.llm.test_finetune import examples  # noqa: PLC0415

    network = TrainedNetwork(open_checkpoint(path), Lora(2), context=64)
    # Five examples for two processes: shares that differ.
    steps = train(network, examples(8), Training(3, batch=5, micro_batch=2, rate=1e-2), group)
    return [step.loss for step in steps]


if __name__ == "__main__":
    path, out = Path(sys.argv[1]), Path(sys.argv[2])
    greedy, drawn, group = tokens(path, tensor_parallel=2)
    result = {"greedy": greedy, "drawn": drawn, "losses": losses(path, group)}
    (out / f"{group.rank}.json").write_text(json.dumps(result))
