#!/usr/bin/env python3
"""The part of nvcc's command line that this repository uses, by NVRTC and ptxas of CUDA 12, which PyPI has without nvcc.

    nvcc.py -arch=sm_90a -cubin [-O3] [-std=c++17] [--fmad=false] [-Werror all-warnings] [--ptxas-options=-v] KERNEL.cu -o OUT
    nvcc.py -arch=compute_90 -ptx ... KERNEL.cu -o OUT
    nvcc.py --version

NVRTC has nvcc's front end and optimiser; it compiles the code of the device alone. CUDA_HOME names the folder that
scripts/cuda/toolkit.sh makes; without it, the folder above this program's is taken. Not here: code of the host, several architectures at once, links.
"""

import argparse
import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

# In the place of the host's headers: all that the kernels use of them.
HEADERS = {
    "cstdint": """
        #pragma once
        using int8_t = signed char;     using uint8_t = unsigned char;
        using int16_t = short;          using uint16_t = unsigned short;
        using int32_t = int;            using uint32_t = unsigned int;
        using int64_t = long long;      using uint64_t = unsigned long long;
        using uintptr_t = unsigned long;
    """,
    "cuda.h": "#pragma once\nstruct alignas(64) CUtensorMap { unsigned long long opaque[16]; };\n",
}
INFINITY = "-DINFINITY=__int_as_float(0x7f800000)"


class Nvrtc:
    def __init__(self, home: Path):
        self.lib = ctypes.CDLL(str(home / "lib64/libnvrtc.so.12"))
        self.lib.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(self, function: str, *arguments) -> None:
        status = getattr(self.lib, function)(*arguments)
        if status:
            raise RuntimeError(f"{function}: {self.lib.nvrtcGetErrorString(status).decode()}")

    def version(self) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def text(self, name: str, program) -> bytes:
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{name}Size", program, ctypes.byref(size))
        out = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{name}", program, out)
        return out.raw[: size.value - 1]

    def ptx(self, source: Path, options: list[str]) -> tuple[bytes, str]:
        """PTX of a file, empty where it has errors, and the compiler's log."""
        program = ctypes.c_void_p()
        names = (ctypes.c_char_p * len(HEADERS))(*(name.encode() for name in HEADERS))
        texts = (ctypes.c_char_p * len(HEADERS))(*(text.encode() for text in HEADERS.values()))
        arguments = [source.read_bytes(), os.fsencode(source), len(HEADERS), texts, names]
        self.call("nvrtcCreateProgram", ctypes.byref(program), *arguments)
        encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        failed = self.lib.nvrtcCompileProgram(program, len(options), encoded)
        log = self.text("ProgramLog", program).decode()
        return (b"", log) if failed else (self.text("PTX", program), log)


def has_warnings(log: str) -> bool:
    """NVRTC writes `FILE(LINE): warning #N: ...`, ptxas `ptxas warning : ...`."""
    return re.search(r"\bwarning( #[\w-]+)? ?:", log) is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-arch")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("-cubin", action="store_true")
    kind.add_argument("-ptx", action="store_true")
    parser.add_argument("-O3", action="store_true", help="the default")
    parser.add_argument("-std", default="c++17")
    parser.add_argument("--fmad", default="true")
    parser.add_argument("-Werror", choices=["all-warnings"])
    parser.add_argument("--ptxas-options", action="append", default=[])
    parser.add_argument("--version", action="store_true")
    parser.add_argument("-o", dest="out", type=Path)
    parser.add_argument("source", nargs="?", type=Path)
    options = parser.parse_args()
    home = Path(os.environ.get("CUDA_HOME") or Path(__file__).resolve().parent.parent)
    if not (home / "lib64").is_dir():
        sys.exit(f"error: `{home}` is not a CUDA toolkit; hint: run scripts/cuda/toolkit.sh, then `. .cuda/env`")
    ptxas = str(home / "bin/ptxas")
    if options.version:
        print(f"NVRTC {Nvrtc(home).version()}", flush=True)
        return subprocess.run([ptxas, "--version"], check=False).returncode
    if not (options.arch and options.source and options.out and (options.cubin or options.ptx)):
        parser.error("-arch, -cubin or -ptx, a source and -o are needed")
    virtual = options.arch.replace("sm_", "compute_")
    # Without a seed, symbols with internal linkage contain a random number, and two builds differ.
    fixed = f"--frandom-seed={options.source.name}"
    flags = [f"--gpu-architecture={virtual}", f"--std={options.std}", f"--fmad={options.fmad}", fixed, INFINITY, f"-I{home}/include"]
    ptx, log = Nvrtc(home).ptx(options.source, flags)
    sys.stderr.write(log)
    if not ptx or (options.Werror and has_warnings(log)):
        return 1
    if options.ptx:
        options.out.write_bytes(ptx)
        return 0
    command = [ptxas, "-O3", f"-arch={options.arch}", *options.ptxas_options, "-o", str(options.out), "/dev/stdin"]
    run = subprocess.run(command, input=ptx, stderr=subprocess.PIPE, check=False)
    messages = run.stderr.decode()
    sys.stderr.write(messages)
    return run.returncode or int(bool(options.Werror) and has_warnings(messages))


if __name__ == "__main__":
    sys.exit(main())
