# /// script
# requires-python = ">=3.9"
# dependencies = []
# ///
"""Writes link-time stand-ins for the CUDA libraries, so that one binary starts with and without CUDA.

    gen_stubs.py --cudarc CUDARC_SOURCE --out DIR        (needs gcc and ar; x86-64 Linux)

candle links the CUDA libraries by name. A binary that names libcuda.so.1 does not start where the driver is
missing, so `DIR/lib<name>.a` offers each of their functions instead, as a jump through a table. An entry of the
table first leads to a routine that opens the real library, writes the real address into the table and goes on
there. Where library or function is missing, the call returns that library's error code (or, where a text is
asked for, a text that says so), which candle reports as an error of its own.

The functions are read from cudarc's bindings, so they are those of the cudarc in Cargo.lock. It does not stand
in for libcudart: the toolkit has that one as a static library which opens the driver by itself.
"""

import argparse
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Library:
    module: str  # folder of its bindings in cudarc
    link: str  # what the linker calls it
    file: str  # what the dynamic loader calls it
    missing: int  # what its functions return when it is not there


LIBRARIES = [
    Library("driver", "cuda", "libcuda.so.1", 100),  # CUDA_ERROR_NO_DEVICE
    Library("nvrtc", "nvrtc", "libnvrtc.so.13", 7),  # NVRTC_ERROR_BUILTIN_OPERATION_FAILURE
    Library("curand", "curand", "libcurand.so.10", 203),  # CURAND_STATUS_INITIALIZATION_FAILED
    Library("cublas", "cublas", "libcublas.so.13", 1),  # CUBLAS_STATUS_NOT_INITIALIZED
    Library("cublaslt", "cublasLt", "libcublasLt.so.13", 1),  # CUBLAS_STATUS_NOT_INITIALIZED
]

# One library: `jump_<link>[i]` holds where function i is; at first `first_i`, which pushes i and asks.
# Registers that may hold arguments (six integers, eight floats, al for variadic calls) survive the asking.
SOURCE = r"""
#include <dlfcn.h>
#include <stddef.h>

enum { STATUS, TEXT, TEXT_OUT }; /* what a function gives back: a status, a text, a text through its 2nd argument */
static const struct { const char *name; int gives; } functions[] = {
%(functions)s
};
extern void *jump_%(link)s[];
static const char message[] = "%(file)s or a function of it is missing";

static long missing(void) { return %(missing)d; }
static const char *missing_text(void) { return message; }
static long missing_text_out(long status, const char **text) {
    (void)status;
    *text = message;
    return 0;
}

/* Two threads may find the same address at the same time: both write the same word. */
__attribute__((used)) static void *find_%(link)s(size_t i) {
    static void *volatile library;
    if (!library) library = dlopen("%(file)s", RTLD_NOW | RTLD_GLOBAL);
    void *found = library ? dlsym(library, functions[i].name) : NULL;
    if (!found) {
        const int gives = functions[i].gives;
        return gives == TEXT ? (void *)missing_text : gives == TEXT_OUT ? (void *)missing_text_out : (void *)missing;
    }
    return jump_%(link)s[i] = found;
}

__asm__(
    ".text\n"
    "ask_%(link)s:\n"
%(save)s
    "  mov %(index_at)d(%%rsp), %%rdi\n"
    "  call find_%(link)s\n"
    "  mov %%rax, %%r11\n"
%(restore)s
    "  add $8, %%rsp\n" /* the pushed index */
    "  jmp *%%r11\n"
%(stubs)s
    ".section .data.rel.local, \"aw\"\n"
    ".balign 8\n"
    ".globl jump_%(link)s\n"
    ".hidden jump_%(link)s\n"
    "jump_%(link)s:\n"
%(table)s
    ".text\n");
"""
STUB = '    ".globl {name}\\n.type {name}, @function\\n{name}: jmp *jump_{link}+{at}(%rip)\\n"\n' \
       '    "first_{link}_{i}: push ${i}\\n jmp ask_{link}\\n"'
INTEGERS = ["rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax"]
FRAME = 8 * 16 + 8 * 7 + 8  # eight vectors, seven integers, and a word that keeps the stack aligned to 16


def functions(cudarc, module):
    """{function: what it gives back, as SOURCE's enum says}, from the signatures in cudarc's bindings."""
    text = (cudarc / "src" / module / "sys" / "mod.rs").read_text(encoding="utf-8")
    found = re.findall(r"pub unsafe fn (\w+)\s*\([^{;]*?\)\s*(?:->\s*([^{;]+?))?\s*\{", text)
    ours = {"culib", "is_culib_present"}  # cudarc's own
    gives = {n: "TEXT" if "*const" in result and "c_char" in result else "STATUS" for n, result in found}
    gives.update({n: "TEXT_OUT" for n in ("cuGetErrorName", "cuGetErrorString") if n in gives})
    return {n: g for n, g in gives.items() if n not in ours}


def frame():
    """The instructions that save and restore the argument registers, and where the pushed index lies."""
    slots = [("movups", f"xmm{i}", 16 * i) for i in range(8)]
    slots += [("mov", r, 128 + 8 * i) for i, r in enumerate(INTEGERS)]
    save = [f"  sub ${FRAME}, %rsp"] + [f"  {op} %{reg}, {at}(%rsp)" for op, reg, at in slots]
    restore = [f"  {op} {at}(%rsp), %{reg}" for op, reg, at in slots] + [f"  add ${FRAME}, %rsp"]
    lines = ["\n".join(f'    "{line}\\n"' for line in part) for part in (save, restore)]
    return lines[0], lines[1], FRAME


def write(library, names, out):
    save, restore, index_at = frame()
    source = SOURCE % {
        "functions": "\n".join(f'    {{"{n}", {gives}}},' for n, gives in names.items()),
        "stubs": "\n".join(
            STUB.format(name=n, link=library.link, i=i, at=8 * i) for i, n in enumerate(names)
        ),
        "table": "\n".join(f'    ".quad first_{library.link}_{i}\\n"' for i in range(len(names))),
        "save": save,
        "restore": restore,
        "index_at": index_at,
        **vars(library),
    }
    c, o = (out / f"{library.link}.{e}" for e in ("c", "o"))
    archive = out / f"lib{library.link}.a"
    c.write_text(source)
    subprocess.run(["gcc", "-O2", "-fPIC", "-Wall", "-Werror", "-c", c, "-o", o], check=True)
    subprocess.run(["ar", "crs", archive, o], check=True)
    c.unlink()
    o.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cudarc", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for library in LIBRARIES:
        names = functions(args.cudarc, library.module)
        assert names, f"no functions in cudarc's bindings of {library.module}"
        write(library, names, args.out)
        print(f"stand-in for {library.file}: {len(names)} functions")


if __name__ == "__main__":
    main()
