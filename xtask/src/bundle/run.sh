#!/usr/bin/env bash
# Runs what is in this folder on a machine with an NVIDIA GPU and its driver. Nothing else is
# needed but tar with xz, or else Python; compute-sanitizer for `sanitize`, and PyTorch for `peers` and
# `attention-peers`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
    cat <<'USAGE'
usage: run.sh [test [ARGUMENTS..]]           the tests; fails if there is no GPU
       run.sh sanitize [TOOL [ARGUMENTS..]]  the tests under compute-sanitizer: memcheck, racecheck,
                                             synccheck or initcheck; without TOOL the first three
       run.sh bench NAME [ARGUMENTS..]       a benchmark
       run.sh example NAME [ARGUMENTS..]     an example
       run.sh peers [ARGUMENTS..]            softmax by this library and by others, in Python:
                                             --help tells the arguments
       run.sh attention-peers [ARGUMENTS..]  attention, likewise
       run.sh list                           what is here
ARGUMENTS of tests are libtest's: a filter, --skip FILTER, --nocapture, ..
PYTHON names the Python that has PyTorch, if it is not python3.
COMPUTE_SANITIZER names the program, if it is neither on the path nor in /usr/local/cuda.
USAGE
}

# The programs come in an archive, which is unpacked by whatever runs first.
if [[ -f $here/programs.tar.xz ]]; then
    (
        cd "$here"
        tar -xf programs.tar.xz 2>/dev/null || python3 -m tarfile -e programs.tar.xz
        rm programs.tar.xz
    )
fi

sanitizer() {
    if [[ -n ${COMPUTE_SANITIZER:-} ]]; then
        echo "$COMPUTE_SANITIZER"
    elif ! command -v compute-sanitizer; then
        echo /usr/local/cuda/bin/compute-sanitizer
    fi
}

export FUSED_ATTENTION_REQUIRE_GPU=1
verb=${1:-test}
[[ $# -gt 0 ]] && shift
case $verb in
test)
    exec "$here/tests/all" "$@"
    ;;
sanitize)
    tools=("${1:-}")
    [[ $# -gt 0 ]] && shift
    [[ -z ${tools[0]} ]] && tools=(memcheck racecheck synccheck)
    # Only the GPU is of interest, and the emulator is slow in one thread. Errors that the driver
    # returns are left to the tests, some of which provoke them.
    export FUSED_ATTENTION_ONLY_GPU=1
    for tool in "${tools[@]}"; do
        echo "== compute-sanitizer $tool"
        # One test at a time: reports of several would mix, and the tool serialises them anyway.
        "$(sanitizer)" --tool "$tool" --error-exitcode 1 --report-api-errors no \
            "$here/tests/all" --test-threads=1 --skip emulator:: "$@"
    done
    ;;
bench)
    name=${1:?"which one? see run.sh list"}
    shift
    exec "$here/benches/$name" --bench "$@"
    ;;
example)
    name=${1:?"which one? see run.sh list"}
    shift
    exec "$here/examples/$name" "$@"
    ;;
peers)
    exec "${PYTHON:-python3}" "$here/python/peers.py" "$@"
    ;;
attention-peers)
    exec "${PYTHON:-python3}" "$here/python/attention_peers.py" "$@"
    ;;
list)
    cd "$here"
    ls tests benches examples lib python
    ;;
*)
    usage
    [[ $verb == --help || $verb == -h || $verb == help ]]
    ;;
esac
