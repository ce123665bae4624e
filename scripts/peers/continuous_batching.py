# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.56", "accelerate"]
# ///
"""transformers' continuous batching on a model's shape with random weights: what `tribunal bench gpu --parts
documents,chats` compares with.

    continuous_batching.py --shapes src/bench/shapes.json --name llama-3.1-8b [--chats 1000] [--documents 12]

The same lengths as ours: documents of 500 and 2,700 tokens, twelve questions of 130 tokens about each, 40 tokens of
answer; chats with log-normal lengths (prompts: median 90, spread 1.3; answers: median 135, spread 1.0; from 4 to 1024).
Token ids are random and answers have their full length. Prints a JSON object.
"""

import argparse
import json
import math
import random
import time

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig


def model_of(shape):
    config = AutoConfig.for_model(**shape)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()


def ids(draw, n, vocab):
    return [draw.randrange(vocab) for _ in range(n)]


def length(draw, median, spread):
    return max(4, min(1024, round(math.exp(math.log(median) + spread * draw.gauss(0, 1)))))


def documents(draw, vocab, tokens, n_documents):
    asked = []
    for _ in range(n_documents):
        document = ids(draw, tokens, vocab)
        asked += [(document + ids(draw, 130, vocab), 40) for _ in range(12)]
    return asked


def chats(draw, vocab, n):
    lengths = [(length(draw, 90, 1.3), length(draw, 135, 1.0)) for _ in range(n)]
    return [(ids(draw, prompt, vocab), answer) for prompt, answer in lengths]


def measure(model, name, asked):
    config = GenerationConfig(do_sample=False, max_new_tokens=1024, eos_token_id=-1, pad_token_id=0)
    manager = model.init_continuous_batching(generation_config=config)
    manager.start()
    try:
        begin = time.perf_counter()
        for prompt, answer in asked:
            manager.add_request(prompt, max_new_tokens=answer)
        written, left = 0, len(asked)
        while left:
            result = manager.get_result(timeout=60)
            if result is None:
                raise RuntimeError(f"{name}: no answer within a minute")
            if result.is_finished():
                written += len(result.generated_tokens)
                left -= 1
        seconds = time.perf_counter() - begin
    finally:
        manager.stop(block=True)
    return {
        "name": name,
        "requests": len(asked),
        "prompt_tokens": sum(len(prompt) for prompt, _ in asked),
        "answer_tokens": written,
        "seconds": seconds,
        "requests_per_s": len(asked) / seconds,
        "answer_tokens_per_s": written / seconds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--chats", type=int, default=1000)
    parser.add_argument("--documents", type=int, default=12)
    args = parser.parse_args()
    with open(args.shapes, encoding="utf-8") as file:
        shape = json.load(file)[args.name]
    torch.manual_seed(1)
    draw, vocab = random.Random(1), shape["vocab_size"]
    model = model_of(shape)
    loads = [("warm-up", chats(draw, vocab, 8))]
    loads += [(f"documents of {n}", documents(draw, vocab, n, args.documents)) for n in (500, 2700)]
    loads += [(f"{args.chats} chats", chats(draw, vocab, args.chats))]
    with torch.inference_mode():
        measured = [measure(model, name, asked) for name, asked in loads]
    about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    about |= {"transformers": transformers.__version__, "shape": args.name}
    print(json.dumps(about | {"loads": measured[1:]}))


if __name__ == "__main__":
    main()
