#!/usr/bin/env bash
# Runs gpu.py on a machine with one GPU, with JAX and then a part of it with PyTorch.
#
#     bash benchmarks/gpu.sh OUT [GOLDEN_FILE]
#
# Writes OUT/gpu.jsonl, OUT/summary.txt and OUT/log.txt, and takes less than 6 minutes.
# GPU_SIZE=tiny proves on any machine that it runs. GPU_SECONDS is the time for all of
# it, PYTHON the interpreter.
set -u
if [ $# -lt 1 ]; then
    echo "usage: bash benchmarks/gpu.sh OUT [GOLDEN_FILE]" >&2
    exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
golden=${2:-}
[ -n "$golden" ] && golden=$(realpath "$golden")
cd "$(dirname "$0")/.." || exit 1
for file in shared/golden/rnnsearch.json ../shared/golden/rnnsearch.json; do
    [ -z "$golden" ] && [ -f "$file" ] && golden=$file
done

python=${PYTHON:-python3}
size=${GPU_SIZE:-paper}
all=${GPU_SECONDS:-340}
# What is kept for PyTorch.
reserve=60
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
export XLA_PYTHON_CLIENT_PREALLOCATE=false
# Each part is a process: they share what JAX has compiled. The folder ends with the run.
JAX_COMPILATION_CACHE_DIR=$(mktemp -d)
export JAX_COMPILATION_CACHE_DIR
trap 'rm -rf "$JAX_COMPILATION_CACHE_DIR"' EXIT
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0.2
: >"$out/gpu.jsonl"
: >"$out/log.txt"
failed=0

# part SECONDS KEPT OPTIONS...: gpu.py for SECONDS at most, leaving KEPT seconds.
part() {
    local limit=$1 left=$((all - SECONDS - $2)) code=0
    shift 2
    [ "$left" -lt "$limit" ] && limit=$left
    if [ "$limit" -lt 10 ]; then
        echo "no time left for: $*" | tee -a "$out/log.txt"
        failed=1
        return
    fi
    echo "== $SECONDS s: gpu.py $* (at most $limit s)" | tee -a "$out/log.txt"
    timeout -k 5 "$limit" "$python" benchmarks/gpu.py --size "$size" \
        --json "$out/gpu.jsonl" "$@" 2>>"$out/log.txt" | tee -a "$out/log.txt"
    code=${PIPESTATUS[0]}
    if [ "$code" -ne 0 ]; then
        tail -n 12 "$out/log.txt"
        echo "exit $code: gpu.py $*" | tee -a "$out/log.txt"
        failed=1
    fi
}

exact=(--parts exact)
[ -n "$golden" ] && exact+=(--golden "$golden")

# A process each: JAX' peak of memory is that of the process.
part 50 $reserve --backend jax "${exact[@]}"
part 60 $reserve --backend jax --parts step --precision tf32 --loss plain
part 60 $reserve --backend jax --parts step --precision mixed_bfloat16 --loss fused
part 60 $reserve --backend jax --parts step --precision mixed_bfloat16 --loss plain
part 60 $reserve --backend jax --parts step --precision tf32 --loss fused
part 110 $reserve --backend jax --parts train --precision tf32
part 70 $reserve --backend jax --parts decode --precision tf32
part 60 $reserve --backend jax --parts step --precision float32 --loss plain
part 60 $reserve --backend jax --parts step --precision float32 --loss fused
part 30 0 --backend torch "${exact[@]}"
part 60 0 --backend torch --parts step --precision tf32,mixed_bfloat16
part 40 0 --backend torch --parts decode --precision tf32 --search greedy

"$python" benchmarks/gpu.py --summary "$out/gpu.jsonl" | tee "$out/summary.txt"
echo "$SECONDS s in all"
exit $failed
