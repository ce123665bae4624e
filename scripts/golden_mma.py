# /// script
# requires-python = ">=3.10"
# dependencies = ["mmasim==2.1.1", "torch==2.9.1", "ninja==1.13.0"]
# ///
"""Writes tests/golden/mma.json: what the MMA-Sim package computes for mma.m16n8k16 of bf16 with f32 accumulation.

usage: uv run scripts/golden_mma.py > tests/golden/mma.json

Numbers are bits in hexadecimal, rows one after another: a [16, 16] and b [16, 8] in bf16, c and d [16, 8] in f32; d for
each compute capability. `many` has the hash (FNV-1a over d's bytes) of tiles whose inputs the test draws itself.
"""

import json
import random

import torch
from mmasim.nv_ptx.sim import MMA

CARDS = {"80": "Ampere", "89": "Ada Lovelace", "90": "Hopper", "100": "Blackwell", "120": "RTX Blackwell"}
SHAPE = "m16n8k16.f32.bf16.bf16.f32"
CORES = {card: MMA(name, SHAPE) for card, name in CARDS.items()}


def halves(bits):
    return torch.tensor(bits, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


def singles(bits):
    return torch.tensor([b - (1 << 32) if b >> 31 else b for b in bits], dtype=torch.int32).view(torch.float32)


def products(card, a, b, c):
    d = CORES[card](halves(a).view(16, 16), halves(b).view(16, 8), singles(c).view(16, 8))
    return [v & 0xFFFFFFFF for v in d.contiguous().view(torch.int32).flatten().tolist()]




def tile(draw_half, draw_single):
    return [draw_half() for _ in range(256)], [draw_half() for _ in range(128)], [draw_single() for _ in range(128)]


def cases(rng):
    """Tiles of every kind of number, by name."""

    def normal(low, high):  # bf16 bits with an exponent between
        return lambda: rng.getrandbits(1) << 15 | rng.randint(low + 127, high + 127) << 7 | rng.getrandbits(7)

    def single(low, high):
        return lambda: rng.getrandbits(1) << 31 | rng.randint(low + 127, high + 127) << 23 | rng.getrandbits(23)

    def either(*draws):
        return lambda: rng.choice(draws)()

    def one_of(*bits):
        return lambda: rng.choice(bits)

    zeros, zeros32 = one_of(0, 0x8000), one_of(0, 0x80000000)
    tiny, tiny32 = (lambda: rng.getrandbits(1) << 15 | rng.getrandbits(7)), (
        lambda: rng.getrandbits(1) << 31 | rng.getrandbits(23)
    )
    special, special32 = one_of(0x7F80, 0xFF80, 0x7FC0, 0xFFC1), one_of(0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001)
    plain, plain32 = normal(-2, 2), single(-2, 2)
    rare = lambda often, draw, n: either(*[often] * (n - 1), draw)

    yield "like activations and weights", tile(normal(-6, 1), single(-4, 3))
    yield "one exponent", tile(normal(0, 0), single(0, 0))
    yield "exponents far apart", tile(normal(-14, 14), single(-20, 20))
    yield "accumulator far above", tile(plain, single(20, 30))
    yield "accumulator far below", tile(plain, single(-40, -20))
    yield "accumulator zero", tile(normal(-6, 1), zeros32)
    yield "products zero", tile(rare(zeros, plain, 4), plain32)
    yield "signed zeros only", tile(zeros, zeros32)
    yield "largest sums at one exponent", tile(one_of(0x3FFF, 0x3FFF, 0xBFFF), one_of(0x407FFFFF, 0xC07FFFFF))
    yield "subnormal factors", tile(either(tiny, normal(100, 126)), either(tiny32, single(-30, -10)))
    yield "subnormal accumulators", tile(either(tiny, zeros), tiny32)
    yield "subnormal sums", tile(normal(-75, -60), either(tiny32, single(-126, -120)))
    yield "sums below every number", tile(normal(-90, -70), zeros32)
    yield "sums too large", tile(normal(61, 64), single(120, 127))
    yield "too large halfway", tile(normal(62, 63), single(126, 127))
    yield "infinities", tile(rare(plain, one_of(0x7F80, 0xFF80), 40), rare(plain32, one_of(0x7F800000, 0xFF800000), 20))
    yield "every special number", tile(rare(plain, special, 60), rare(plain32, special32, 20))
    yield "infinity times zero", tile(rare(either(plain, zeros), one_of(0x7F80), 30), plain32)
    yield "any bits", tile(lambda: rng.getrandbits(16), lambda: rng.getrandbits(32))

    half = [normal(-3, 0)() for _ in range(256)]  # the second half of k takes back what the first adds
    a = [half[i * 16 + k % 8] ^ (0x8000 if k >= 8 else 0) for i in range(16) for k in range(16)]
    column = [[plain() for _ in range(8)] for _ in range(8)]
    b = [column[k % 8][j] for k in range(16) for j in range(8)]
    yield "halves that cancel", (a, b, [single(-10, -4)() for _ in range(128)])


def drawn(n, spread):
    """The inputs of `n` tiles as kernels/tests/mma.cpp draws them: a linear congruential generator."""
    state = 1

    def bits():
        nonlocal state
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        return state >> 8

    def half():
        v = bits()
        return (v & 1) << 15 | (127 - spread + (v >> 8) % (2 * spread)) << 7 | (v >> 1 & 0x7F)

    def single():
        v = bits()
        return (v & 1) << 31 | (127 - spread + (v >> 8) % (2 * spread)) << 23 | bits() & 0x7FFFFF

    for _ in range(n):
        yield tile(half, single)


def fnv(hash_so_far, words):
    for word in words:
        for byte in word.to_bytes(4, "little"):
            hash_so_far = (hash_so_far ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return hash_so_far


def text(bits, digits):
    return "".join(f"{v:0{digits}x}" for v in bits)


def main():
    print(
        json.dumps({"made_by": f"scripts/golden_mma.py, mmasim 2.1.1, torch {torch.__version__.split('+')[0]}"})[:-1]
        + ',"cases":['
    )
    rng, lines = random.Random(20261122), []
    for name, (a, b, c) in cases(rng):
        made = {card: text(products(card, a, b, c), 8) for card in CARDS}
        lines.append(json.dumps({"name": name, "a": text(a, 4), "b": text(b, 4), "c": text(c, 8), "d": made}))
    print(",\n".join(lines) + '\n],"many":[')
    lines = []
    for spread, n in [(2, 400), (8, 400), (40, 400)]:
        hashes = dict.fromkeys(CARDS, 0xCBF29CE484222325)
        for a, b, c in drawn(n, spread):
            for card in CARDS:
                hashes[card] = fnv(hashes[card], products(card, a, b, c))
        hashes = {card: f"{h:016x}" for card, h in hashes.items()}
        lines.append(json.dumps({"spread": spread, "tiles": n, "d": hashes}))
    print(",\n".join(lines) + "\n]}")


if __name__ == "__main__":
    main()
