"""Reads a disassembly for 64-bit ARM (objdump -d) and checks the innermost loops of the kernels: that they compute with
the instructions that they are written for, and that nothing in them falls back to one number at a time.

    aarch64-linux-gnu-objdump -d --no-show-raw-insn PROGRAM | python3 scripts/arm_loops.py
"""

import re
import sys
from collections import Counter

# Functions (parts of their mangled names), the instruction that multiplies in them, how many loops at least are made of
# it, and what such a loop must not have.
BYTES = {"ldrsb", "sxtb", "smaddl"}
FLOATS = {"fmadd", "fmsub", "fdiv"}
EXPECTED = [
    ("int8_i8mm", "smmla", 16, BYTES | {"smull", "smull2"}),
    ("int8_dotprod", "sdot", 24, BYTES | {"smull", "smull2"}),
    ("4neon4int8", "smull", 24, BYTES),
    ("floats8multiply4neon", "fmla", 16, FLOATS),
    ("attend6attend4neon", "fmla", 30, FLOATS),
]
# A loop is made of an instruction that it has as often.
AT_LEAST = 8


def functions(lines):
    """Names, and their instructions: address, mnemonic, operands."""
    name, body = None, []
    for line in lines:
        if start := re.match(r"^[0-9a-f]+ <(.*)>:$", line):
            if name:
                yield name, body
            name, body = start[1], []
        elif found := re.match(r"^\s+([0-9a-f]+):\s+(\S+)\s*(.*)", line):
            body.append((int(found[1], 16), found[2], found[3]))
    if name:
        yield name, body


def innermost_loops(body):
    """Stretches of instructions from the target of a backward branch to the branch, with none inside them."""
    places = {address: i for i, (address, *_) in enumerate(body)}
    ends = []
    for i, (_, mnemonic, operands) in enumerate(body):
        if re.match(r"b(\.\w+)?$|cbn?z$|tbn?z$", mnemonic) and (to := re.search(r"([0-9a-f]+) <", operands)):
            start = places.get(int(to[1], 16), i + 1)
            if start <= i:
                ends.append((start, i))
    for start, end in ends:
        if not any((a, b) != (start, end) and start <= a and b <= end for a, b in ends):
            yield body[start : end + 1]


def main():
    found = {part: [0, 0, 0, []] for part, *_ in EXPECTED}
    for name, body in functions(sys.stdin):
        for part, multiplies, _, forbidden in EXPECTED:
            if part not in name:
                continue
            found[part][0] += 1
            for loop in innermost_loops(body):
                # A division of a vector's lanes is none of one number.
                mix = Counter(m for _, m, operands in loop if not (m == "fdiv" and operands.startswith("v")))
                if mix[multiplies] < AT_LEAST:
                    continue
                found[part][1] += 1
                found[part][2] += sum(
                    1 for _, mnemonic, to in loop if mnemonic in ("str", "stp") and to.startswith("q") and "[sp" in to
                )
                found[part][3] += [f"`{bad}` in {name} at {loop[0][0]:x}" for bad in forbidden & mix.keys()]
    failed = False
    for part, multiplies, at_least, _ in EXPECTED:
        n_functions, n_loops, n_spilled, faults = found[part]
        print(f"{part}: {n_functions} functions, {n_loops} loops of {multiplies}, {n_spilled} registers stored in them")
        if n_loops < at_least:
            faults.append(f"{at_least} loops were expected")
        for fault in faults:
            print(f"error: {fault}", file=sys.stderr)
        failed = failed or bool(faults)
    sys.exit(1 if failed else 0)


main()
