# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.17,<6", "accelerate"]
# ///
"""transformers' continuous batching on a model's shape with random weights: what `tribunal-bench gpu --parts
documents,chats` compares with.

    continuous_batching.py --shapes crates/bench/src/shapes.json --name llama-3.1-8b [--chats 1000] [--documents 12]

The same lengths as ours: documents of 500 and 2,700 tokens, twelve questions of 130 tokens about each, 40 tokens of
answer; chats with log-normal lengths (prompts: median 90, spread 1.3; answers: median 135, spread 1.0; from 4 to 1024).
Token ids are random and answers have their full length. Prints a JSON object; a load that transformers did not finish has
an `error` there in place of its times.

Written for transformers 5.17. Its continuous batching may take minutes before the first answer to long prompts, so the
script waits as long as its thread is alive and --patience seconds (600) at most.
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


def next_result(manager, patience):
    """The next finished answer; raises where there will be none, or none came in time."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        # The thread is asked first: what it has put out before it ended is still there.
        alive = manager.is_running()
        result = manager.get_result(timeout=5)
        if result is not None:
            if getattr(result, "error", None):
                raise RuntimeError(result.error)
            if result.is_finished():
                return result
        elif not alive:
            raise RuntimeError("transformers' thread has ended; its reason is above")
    raise RuntimeError(f"no answer within {patience} s")


def measure(model, name, asked, patience):
    config = GenerationConfig(do_sample=False, max_new_tokens=1024, eos_token_id=-1, pad_token_id=0)
    manager = model.init_continuous_batching(generation_config=config)
    manager.start()
    try:
        begin = time.perf_counter()
        for prompt, answer in asked:
            manager.add_request(prompt, max_new_tokens=answer)
        written = sum(len(next_result(manager, patience).generated_tokens) for _ in asked)
        seconds = time.perf_counter() - begin
    except RuntimeError as error:
        return {"name": name, "requests": len(asked), "error": str(error)}
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
    parser.add_argument("--patience", type=float, default=600)
    args = parser.parse_args()
    major, minor = (int(part) for part in transformers.__version__.split(".")[:2])
    if major != 5 or minor < 17:
        parser.error(f"transformers is {transformers.__version__}; hint: pip install 'transformers>=5.17,<6'")
    with open(args.shapes, encoding="utf-8") as file:
        shape = json.load(file)[args.name]
    torch.manual_seed(1)
    draw, vocab = random.Random(1), shape["vocab_size"]
    model = model_of(shape)
    loads = [("warm-up", chats(draw, vocab, 8))]
    loads += [(f"documents of {n}", documents(draw, vocab, n, args.documents)) for n in (500, 2700)]
    loads += [(f"{args.chats} chats", chats(draw, vocab, args.chats))]
    with torch.inference_mode():
        measured = [measure(model, name, asked, args.patience) for name, asked in loads]
    about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    about |= {"transformers": transformers.__version__, "shape": args.name}
    print(json.dumps(about | {"loads": measured[1:]}))


if __name__ == "__main__":
    main()
