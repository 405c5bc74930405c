#!/usr/bin/env bash
# Set-up: setup.sh VENV makes the virtual environment VENV with torch and the test tools, and installs the system packages that the
# build needs when it may. setup.sh --system-only does the second alone. Doing it again is quick and changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

TORCH=${TINY_TORCH_VERSION:-2.13.0}
PYTHON_PACKAGES=("torch==$TORCH" numpy scikit-learn pytest pytest-timeout setuptools wheel expecttest hypothesis)
NEEDED=(libfmt-dev libxxhash-dev nlohmann-json3-dev libsqlite3-dev libzstd-dev zlib1g-dev libgtest-dev libbenchmark-dev)
TOOLS=(cmake ninja-build ccache)

say() { printf '%s\n' "setup: $*" >&2; }
has_package() { [ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" = "install ok installed" ]; }
apt_install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
offered() { [ -n "$(apt-cache policy "$1" 2>/dev/null | grep 'Candidate:' | grep -v '(none)')" ]; }

# The newest LLVM that is installed or offered; prints its version, or nothing when there is none from 19 on.
llvm_version() {
  for v in 23 22 21 20 19; do has_package "llvm-$v-dev" && { echo "$v"; return; }; done
  for v in 22 21 20 19; do offered "llvm-$v-dev" && { echo "$v"; return; }; done
  return 0
}

system_packages() {
  command -v dpkg-query >/dev/null || { say "no dpkg here: have cmake, ninja and the headers of ${NEEDED[*]} ready"; return 0; }
  local missing=() optional=() p v
  for p in "${NEEDED[@]}"; do has_package "$p" || missing+=("$p"); done
  for p in "${TOOLS[@]}"; do has_package "$p" || optional+=("$p"); done
  command -v python3 >/dev/null && python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  python3 -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null \
    || missing+=(python3-dev)
  local wanted=$(( ${#missing[@]} + ${#optional[@]} ))
  ls /usr/lib/llvm-*/lib/libLLVMOrcJIT.a >/dev/null 2>&1 || wanted=$((wanted + 1))
  if [ "$(id -u)" = 0 ] && [ "$wanted" -gt 0 ]; then
    say "apt-get update"
    apt-get update -qq >/dev/null || say "apt-get update failed; going on with the lists at hand"
  fi
  v=$(llvm_version)
  if [ -n "$v" ]; then
    for p in "llvm-$v-dev" "lld-$v"; do has_package "$p" || optional+=("$p"); done
  else
    say "no LLVM from 19 on is offered here: kernels will be compiled by the system's C compiler"
  fi
  local all=("${missing[@]}" "${optional[@]}")
  [ ${#all[@]} -gt 0 ] || return 0
  if [ "$(id -u)" = 0 ]; then
    say "installing ${all[*]}"
    apt_install "${all[@]}" && return 0
    say "installing all at once failed; trying them one by one"
    for p in "${all[@]}"; do apt_install "$p" || say "cannot install $p"; done
    return 0
  fi
  say "not root; for all of it run"
  printf '  sudo apt-get install -y %s\n' "${all[*]}" >&2
  for p in "${missing[@]}"; do [ "$p" = libbenchmark-dev ] || { say "cannot build without $p"; return 1; }; done
  say "going on without ${optional[*]}"
}

python_packages() {
  local venv=$1 python=${PYTHON:-}
  if [ -z "$python" ]; then
    for python in python3.12 python3.11 python3; do
      "$python" -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' 2>/dev/null && break
    done
  fi
  [ -x "$venv/bin/python" ] || { say "making $venv with $python"; "$python" -m venv "$venv"; }
  command -v cmake >/dev/null || PYTHON_PACKAGES+=(cmake)
  command -v ninja >/dev/null || PYTHON_PACKAGES+=(ninja)
  say "pip install ${PYTHON_PACKAGES[*]}"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check "${PYTHON_PACKAGES[@]}"
}

system_packages
if [ "${1:-}" != --system-only ]; then
  venv=${1:-.venv}
  python_packages "$venv"
  touch "$venv/.torch-tiny-setup"
fi
