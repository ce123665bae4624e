"""Pairs of runs of the same questions: our engine, then OpenVINO GenAI's continuous batching, in turn.

OpenVINO runs at its best for them: with its prefix cache, and each document's first question asked alone, so that the
others find its prefix. It loads the same GGUF file; it cannot load Q5_0, so the 0.5B is out of its reach.
Each run is a process of its own; loading and a first small question are not timed, on either side.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from pairs import arguments, compare, n_errors, plain

END = 151645  # <|im_end|>, with which a Qwen2.5 answer ends


def theirs(a, gguf, requests, lengths):
    # OpenVINO keeps what it makes of a file beside it: a link keeps that out of the models' folder.
    link = Path("target/peers/openvino/models", Path(gguf).name)
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(gguf)
    order = json.dumps({"gguf": str(link), "threads": a.threads, "requests": requests, "lengths": lengths})
    done = subprocess.run([sys.executable, __file__, "--run"], input=order, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: OpenVINO's run ended with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def run(order):
    import numpy
    import openvino
    import openvino_genai as genai

    scheduler = genai.SchedulerConfig()
    scheduler.enable_prefix_caching = True
    scheduler.cache_size = 4
    scheduler.max_num_batched_tokens = 512
    scheduler.dynamic_split_fuse = True
    scheduler.max_num_seqs = 64
    settings = {"enable_save_ov_model": True, "INFERENCE_NUM_THREADS": order["threads"]}
    pipe = genai.ContinuousBatchingPipeline(order["gguf"], scheduler, "CPU", settings)

    def generate(requests):
        ids = [openvino.Tensor(numpy.array([r["prompt_ids"]], dtype=numpy.int64)) for r in requests]
        return pipe.generate(ids, [config(genai, r, order["lengths"]) for r in requests])

    generate([{"id": "", "prompt_ids": [1, 2, 3], "max_tokens": 2, "schema": None}])
    firsts = {}
    for request in order["requests"]:
        firsts.setdefault(request["doc"], request)
    others = [r for r in order["requests"] if firsts[r["doc"]] is not r]
    began = time.perf_counter()
    done = generate(list(firsts.values())) + (generate(others) if others else [])
    seconds = time.perf_counter() - began
    ids = [answer.m_generation_ids[0] for answer in done]
    tokenizer = pipe.get_tokenizer()
    errors = [n_errors(tokenizer.decode(list(answer))) for answer in ids]
    return {"seconds": seconds, "computed": None, "generated": sum(map(len, ids)),
            "valid": sum(n is not None for n in errors), "spans": sum(n or 0 for n in errors)}


def config(genai, request, lengths):
    c = genai.GenerationConfig()
    limit = (lengths or {}).get(request["id"])
    c.max_new_tokens = limit or request["max_tokens"]
    c.do_sample = False
    c.apply_chat_template = False
    c.eos_token_id = END
    if request["schema"]:
        c.structured_output_config = genai.StructuredOutputConfig()
        c.structured_output_config.json_schema = json.dumps(plain(request["schema"]))
    return c


if __name__ == "__main__":
    if sys.argv[1:] == ["--run"]:
        print(json.dumps(run(json.load(sys.stdin))))
    else:
        p = arguments("scripts/peers/openvino.sh", __doc__.split("\n")[0], model="qwen2.5-coder-1.5b-instruct")
        compare(p.parse_args(), "OpenVINO", theirs)
