"""Pairs of runs of the same questions: our engine, then OpenVINO GenAI's continuous batching, in turn.

OpenVINO runs at its best for them: with its prefix cache, and each document's first question asked alone, so that the
others find its prefix. It loads the same GGUF file; it cannot load Q5_0, so the 0.5B is out of its reach.
Each run is a process of its own; loading and a first small question are not timed, on either side.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import pace
from pairs import arguments, compare, n_errors, plain, run as process

END = 151645  # <|im_end|>, with which a Qwen2.5 answer ends


def theirs(a, gguf, requests, lengths):
    return ordered(gguf, {"threads": a.threads, "requests": requests, "lengths": lengths})


def their_pace(a, gguf):
    sequences = [int(n) for n in a.sequences.split(",")]
    m = ordered(gguf, {"threads": a.threads, "pace": {"prompt": a.prompt, "answer": a.answer, "sequences": sequences}})
    return pace.figures(a, m["prompt"], m["decode"])


def ordered(gguf, order):
    # OpenVINO keeps what it makes of a file beside it: a link keeps that out of the models' folder.
    link = Path("target/peers/openvino/models", Path(gguf).name)
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(gguf)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(order | {"gguf": str(link)}, file)
        file.flush()
        return json.loads(process([sys.executable, __file__, "--run", file.name]).splitlines()[-1])


def pipeline(order):
    import openvino_genai as genai

    scheduler = genai.SchedulerConfig()
    scheduler.enable_prefix_caching = True
    scheduler.cache_size = 4
    scheduler.max_num_batched_tokens = 512
    scheduler.dynamic_split_fuse = True
    scheduler.max_num_seqs = 64
    settings = {"enable_save_ov_model": True, "INFERENCE_NUM_THREADS": order["threads"]}
    return genai.ContinuousBatchingPipeline(order["gguf"], scheduler, "CPU", settings)


def generate(pipe, prompts, configs):
    import numpy
    import openvino

    ids = [openvino.Tensor(numpy.array([prompt], dtype=numpy.int64)) for prompt in prompts]
    return pipe.generate(ids, configs)


def run(order):
    pipe = pipeline(order)

    def ask(requests):
        configs = [config(r, order["lengths"]) for r in requests]
        return generate(pipe, [r["prompt_ids"] for r in requests], configs)

    ask([{"id": "", "prompt_ids": [1, 2, 3], "max_tokens": 2, "schema": None}])
    firsts = {}
    for request in order["requests"]:
        firsts.setdefault(request["doc"], request)
    others = [r for r in order["requests"] if firsts[r["doc"]] is not r]
    began = time.perf_counter()
    done = ask(list(firsts.values())) + (ask(others) if others else [])
    seconds = time.perf_counter() - began
    ids = [answer.m_generation_ids[0] for answer in done]
    tokenizer = pipe.get_tokenizer()
    errors = [n_errors(tokenizer.decode(list(answer))) for answer in ids]
    return {"seconds": seconds, "computed": None, "generated": sum(map(len, ids)),
            "valid": sum(n is not None for n in errors), "spans": sum(n or 0 for n in errors)}


def run_pace(order):
    """A prompt that is new, and answers to prompts that are in the prefix cache, less what one token takes."""
    pipe, o = pipeline(order), order["pace"]

    def seconds(prompts, tokens):
        began = time.perf_counter()
        limit = {"id": "", "max_tokens": tokens, "schema": None}
        generate(pipe, prompts, [config(limit, None, ignore_eos=True)] * len(prompts))
        return time.perf_counter() - began

    def prompt(seed):
        return [(i + 1) * 7919 * (seed + 1) % 29989 for i in range(o["prompt"])]

    seconds([[1, 2, 3]], 2)
    first = seconds([prompt(1000)], 1)
    decode = []
    for n in o["sequences"]:
        prompts = [prompt(row) for row in range(n)]
        seconds(prompts, 1)
        one = seconds(prompts, 1)
        decode.append({"batch": n, "tokens_per_s": n * o["answer"] / (seconds(prompts, 1 + o["answer"]) - one)})
    return {"prompt": o["prompt"] / first, "decode": decode}


def config(request, lengths, ignore_eos=False):
    import openvino_genai as genai

    c = genai.GenerationConfig()
    limit = (lengths or {}).get(request["id"])
    c.max_new_tokens = limit or request["max_tokens"]
    c.do_sample = False
    c.apply_chat_template = False
    c.eos_token_id = END
    c.ignore_eos = ignore_eos
    if request["schema"]:
        c.structured_output_config = genai.StructuredOutputConfig()
        c.structured_output_config.json_schema = json.dumps(plain(request["schema"]))
    return c


if __name__ == "__main__":
    about, model = __doc__.split("\n")[0], "qwen2.5-coder-1.5b-instruct"
    if sys.argv[1:2] == ["--run"]:
        given = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
        print(json.dumps(run_pace(given) if "pace" in given else run(given)))
    elif "--pace" in sys.argv:
        sys.argv.remove("--pace")
        pace.compare(pace.arguments("scripts/peers/openvino.sh --pace", about, model=model).parse_args(), "OpenVINO", their_pace)
    else:
        compare(arguments("scripts/peers/openvino.sh", about, model=model).parse_args(), "OpenVINO", theirs)
