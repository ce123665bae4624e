"""Our engine and candle-transformers' quantized Qwen2 and Qwen3 on the same file, in turn.

  python3 scripts/peers/candle.py --tribunal target/release/tribunal [--model CARD|FILE.gguf] [--pairs 3] [--json]
  python3 scripts/peers/candle.py --tribunal target/release/tribunal --testset DIR -l en-de --systems ONLINE-B [--groups 1]

The first form compares bare prompts and bare answers. The second asks the questions of a judge: candle has no grammar
and shares no prefix, so that it reads each prompt whole and writes as many tokens as our answer had, whatever they
are. `tribunal-bench candle` runs candle. Standard library only.
"""

import json
import sys

import pace
import pairs


def theirs(a, gguf):
    common = ["--model", gguf, "--threads", str(a.threads)]
    shape = ["--prompt", str(a.prompt), "--answer", str(a.answer), "--rows", a.sequences]
    m = json.loads(pairs.run([a.tribunal + "-bench", "candle", *common, *shape]))
    return pace.figures(a, m["prefill"][0]["tokens_per_s"], m["decode"])


def answers(a, gguf, file, replies):
    m = json.loads(pairs.run([a.tribunal + "-bench", "candle", "--model", gguf, "--threads", str(a.threads),
                              "--requests", file, "--replies", replies]))["answered"]
    return {"seconds": m["seconds"], "computed": m["prompt_tokens"], "generated": m["generated_tokens"],
            "valid": 0, "spans": 0}


if __name__ == "__main__":
    about = __doc__.split("\n")[0]
    if "--testset" in sys.argv:
        p = pairs.arguments("scripts/peers/candle.py", about, model="qwen2.5-coder-1.5b-instruct")
        pairs.compare_equal(p.parse_args(), "candle", answers)
    else:
        pace.compare(pace.arguments("scripts/peers/candle.py", about).parse_args(), "candle", theirs)
