# /// script
# requires-python = ">=3.9"
# dependencies = ["torch"]
# ///
"""Times the products of a model's shape by cuBLAS, through torch: what `tribunal-bench gpu --parts products` compares with.

    torch_gemm.py --shapes crates/bench/src/shapes.json --names qwen2.5-7b llama-3.1-8b [--rows 1,16,64,256,512,2048]

bf16 in and out with f32 accumulation (ours writes f32). As in ours, weights are multiplied in turn from copies that no
cache holds together; each figure is the best of three means over the same number of products. They are launched from a
CUDA graph, so that torch's own overhead, which is larger than a small product, is not counted. Prints a JSON object.
"""

import argparse
import json
import math

import torch

BEYOND_CACHE = 256 << 20
REPEATS = 50


def products(c):
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    dim = c.get("head_dim", hidden // heads)
    qkv = (heads + 2 * c["num_key_value_heads"]) * dim
    return {
        "qkv": (qkv, hidden),
        "o": (hidden, heads * dim),
        "gate_up": (2 * c["intermediate_size"], hidden),
        "down": (hidden, c["intermediate_size"]),
        "lm_head": (c["vocab_size"], hidden),
    }


def seconds(m, n, k):
    copies = min(16, math.ceil(BEYOND_CACHE / (2 * n * k)))
    weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16).mul_(0.02) for _ in range(copies)]
    x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

    def work():
        for i in range(REPEATS):
            torch.mm(x, weights[i % copies].t(), out=out)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        work()  # cuBLAS makes its handle and workspace outside of the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    graph.replay()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    best = math.inf
    for _ in range(3):
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) / 1e3 / REPEATS)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", required=True)
    parser.add_argument("--names", nargs="+", required=True)
    parser.add_argument("--rows", default="1,16,64,256,512,2048")
    args = parser.parse_args()
    with open(args.shapes, encoding="utf-8") as file:
        shapes = json.load(file)
    rows = [int(m) for m in args.rows.split(",")]
    found = [
        {"shape": name, "name": product, "m": m, "n": n, "k": k, "seconds": seconds(m, n, k)}
        for name in args.names
        for product, (n, k) in products(shapes[name]).items()
        for m in rows
    ]
    gpu = torch.cuda.get_device_name()
    print(json.dumps({"gpu": gpu, "torch": torch.__version__, "products": found}))


if __name__ == "__main__":
    main()
