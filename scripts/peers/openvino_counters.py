"""Where OpenVINO spends the time of one prompt: its own counters (PERF_COUNT), by kind of operation.

  target/peers/openvino/bin/python scripts/peers/openvino_counters.py target/peers/openvino/models/openvino_model.xml [--prompt 512]

The model is what `scripts/peers/openvino.sh` saves beside a GGUF file. It runs outside of GenAI's pipeline, with its
plain attention; the products are the same.
"""

import argparse
import collections
import os
import time

import numpy
import openvino


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("model", help="openvino_model.xml")
    p.add_argument("--prompt", type=int, default=512, help="prompt tokens")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    a = p.parse_args()
    settings = {"PERF_COUNT": True, "INFERENCE_NUM_THREADS": a.threads}
    request = openvino.Core().compile_model(a.model, "CPU", settings).create_infer_request()
    inputs = {"input_ids": [[(i + 1) * 7919 % 29989 for i in range(a.prompt)]], "attention_mask": [[1] * a.prompt],
              "position_ids": [list(range(a.prompt))], "beam_idx": [0]}
    names = {name for port in request.model_inputs for name in port.get_names()}
    inputs = {name: numpy.array(values, dtype=numpy.int32 if name == "beam_idx" else numpy.int64)
              for name, values in inputs.items() if name in names}
    for _ in range(2):  # the first one compiles
        request.reset_state()
        began = time.perf_counter()
        request.infer(inputs)
        seconds = time.perf_counter() - began
    spent = collections.Counter()
    for node in request.profiling_info:
        spent[node.node_type] += node.real_time.total_seconds()
    total = sum(spent.values())
    print(f"{a.prompt} tokens, {a.threads} threads: {seconds:.2f} s, {a.prompt / seconds:.0f} tokens/s; counted {total:.2f} s")
    for kind, s in spent.most_common(8):
        print(f"{kind:32}{s:8.3f} s{s / total:8.1%}")


if __name__ == "__main__":
    main()
