#!/usr/bin/env bash
# An empty root to install into, as a tar that stays in the user's cache: Python with pip and what they need, no compiler,
# no shell. Prints the path of the tar.
#
#   scripts/empty_root.sh x86_64-glibc | aarch64-glibc | x86_64-musl
#
# With glibc it is Debian's packages, unpacked; for musl there are none, so Debian's source of Python is compiled with
# Debian's musl-gcc (minutes). Needs root, apt-get and a Debian or Ubuntu; where it cannot be made, the exit code is 77.
set -euo pipefail

kind=${1:?hint: scripts/empty_root.sh x86_64-glibc}
folder="${XDG_CACHE_HOME:-$HOME/.cache}/tribunal/roots"
suite=bookworm mirror=http://deb.debian.org/debian
# A change of this file makes the roots anew.
root="$folder/$kind-$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-12).tar"
skip() { printf 'not checked: %s\n' "$*" >&2; exit 77; }

[ ! -e "$root" ] || { echo "$root"; exit; }
{ [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; } || skip "an empty root is made by root with apt-get"
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

install() { # install PACKAGE...: what of it is missing
  dpkg -s "$@" >/dev/null 2>&1 && return
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
    >/dev/null 2>&1 || skip "$* cannot be installed here"
}

debian() { # debian ARCHITECTURE
  install mmdebstrap
  mmdebstrap --quiet --variant=extract --architectures="$1" --include=python3,python3-pip "$suite" "$work/root.tar" \
    "$mirror" >&2 || skip "Debian's packages for $1 cannot be fetched here"
}

musl() {
  install gcc make musl musl-tools
  cd "$work"
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >sources.list
  local sources=(-o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists")
  mkdir -p lists/partial
  { apt-get "${sources[@]}" update -qq && apt-get "${sources[@]}" source -qq --download-only python3.11 zlib; } \
    >/dev/null 2>&1 || skip "Debian's source of Python cannot be fetched here"
  tar xf python3.11_*.orig.tar.*
  tar xf zlib_*.orig.tar.*
  # Python's build asks its compiler for the name of the platform, and musl-gcc answers with glibc's.
  cat >cc <<'END'
#!/bin/sh
case $1 in *-print-multiarch) echo x86_64-linux-musl; exit ;; esac
exec musl-gcc "$@"
END
  chmod +x cc
  {
    (cd zlib-* && CC=musl-gcc CFLAGS="-O1 -fPIC" ./configure --static --prefix="$work/zlib" && make -s -j2 install)
    (cd Python-* && ./configure -q CC="$work/cc" CFLAGS=-O1 CPPFLAGS="-I$work/zlib/include" LDFLAGS="-L$work/zlib/lib" \
      --prefix=/usr --without-ensurepip --disable-test-modules && make -s -j2 && make -s install DESTDIR="$work/root")
  } >log 2>&1 || { tail -n 20 log >&2; exit 1; }
  rm -rf root/usr/lib/python3.11/{config-*,idlelib,test,tkinter} root/usr/lib/libpython*.a root/usr/include
  find root -name __pycache__ -prune -exec rm -rf {} +
  mkdir -p root/lib root/tmp root/dev root/proc
  cp /lib/x86_64-linux-musl/libc.so root/lib/ld-musl-x86_64.so.1
  python3 -m zipfile -e Python-*/Lib/ensurepip/_bundled/pip-*.whl root/usr/lib/python3.11/site-packages
  tar cf root.tar -C root .
}

case $kind in
  x86_64-glibc) debian amd64 ;;
  aarch64-glibc) debian arm64 ;;
  x86_64-musl) musl ;;
  *) echo "error: no root of the kind \`$kind\`; hint: x86_64-glibc, aarch64-glibc or x86_64-musl" >&2; exit 2 ;;
esac
mv "$work/root.tar" "$root"
echo "$root"
