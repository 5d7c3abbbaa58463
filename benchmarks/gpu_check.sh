#!/usr/bin/env bash
# What only a machine with a GPU can show, in a few minutes: the tests marked `cuda`, short benchmarks on the GPU, on
# DataParallel and compiled, and what a skip costs there. Needs torch, typer, rich and pytest, but neither torchinfo
# nor a network: nothing is installed, the checkout is put on the path.
#
#   benchmarks/gpu_check.sh [FOLDER]     writes what it finds into FOLDER (a new one below /tmp without it)
#   DEVICE=cpu benchmarks/gpu_check.sh   the same without a GPU, to try the script out; DataParallel is left out
set -uo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
python=${PYTHON:-python3}
device=${DEVICE:-cuda}
out=${1:-$(mktemp -d)}
mkdir -p "$out"

failed=()
step() { # step NAME SECONDS COMMAND...: runs it for at most so long, keeps what it prints, and counts it
    local name=$1 seconds=$2
    shift 2
    printf '\n=== %s\n' "$name"
    timeout "$seconds" "$@" 2>&1 | tee "$out/$name.txt"
    local code=${PIPESTATUS[0]}
    if [ "$code" -ne 0 ]; then
        failed+=("$name")
        printf '=== %s FAILED with %s\n' "$name" "$code"
    fi
}

bench() { # bench NAME SECONDS OPTION...: a benchmark as text, and saved with its samples
    local name=$1 seconds=$2
    shift 2
    step "$name" "$seconds" "$python" -m rescli bench --quiet --save "$out/$name.json" "$@"
}

# Plugins that the tests are written for may be missing here: random order, and the tests of many inputs.
cuda_tests() {
    mapfile -t files < <(grep -rl --include='test_*.py' 'mark\.cuda' tests)
    "$python" -m pytest -q -m cuda -p no:cacheprovider -W ignore::pytest.PytestConfigWarning \
        -W "ignore:Failed to initialize NumPy:UserWarning" "${files[@]}"
}
export -f cuda_tests
export python

if [ "$device" = cuda ]; then
    "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' || {
        echo "torch sees no GPU here"
        exit 4
    }
fi

step env 30 "$python" -m rescli env
step tests 60 bash -c cuda_tests
bench "$device" 30 transformer --device "$device" --max-time 8 --versus plain
if [ "$device" = cuda ]; then
    bench dp 30 transformer --parallel dp --max-time 6 --batch-size 64
fi
bench ddp 45 transformer --parallel ddp --device "$device" --max-time 6 --batch-size 64
bench compiled 75 projection --device "$device" --compile --max-time 40 --passes inference,step
step overhead 110 "$python" benchmarks/overhead.py --device "$device" --quick

printf '\nwritten to %s\n' "$out"
for name in ${failed[@]+"${failed[@]}"}; do
    printf 'failed: %s\n' "$name"
done
[ "${#failed[@]}" -eq 0 ]
