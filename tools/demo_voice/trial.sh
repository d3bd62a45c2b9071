#!/usr/bin/env bash
# Judges two designs of the codec by words, on two cards: wide_judged with a listener on the first, wide without on the second.
# Run: ./trial.sh SECONDS OUT     Needs debs/ (fetch.sh) and pocketsphinx. Ends at the first failure.
set -euo pipefail
seconds=$1 out=$(realpath "$2")
cd "$(dirname "$0")"
mkdir -p work "$out"
export LD_LIBRARY_PATH=$PWD/debs/usr/lib/x86_64-linux-gnu PYTHONUNBUFFERED=1
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
python3 -c "import pocketsphinx, scipy, tokenizers"
workers=$(($(nproc) - 3))

listened() {
    CUDA_VISIBLE_DEVICES=0 python3 train_phones.py --seconds 50 --hours 30 > "$out/phones.log" 2>&1
    CUDA_VISIBLE_DEVICES=0 DEMO_VOICE_DESIGN=designs/wide_judged.toml python3 train_codec.py --seconds "$seconds" \
        --hours 80 --listener work/phones.pt --out work/wide_judged.pt > "$out/wide_judged.log" 2>&1
}
plain() {
    CUDA_VISIBLE_DEVICES=1 DEMO_VOICE_DESIGN=designs/wide.toml python3 train_codec.py --seconds "$seconds" \
        --hours 80 --out work/wide.pt > "$out/wide.log" 2>&1
}
judge() { # NAME CHECKPOINT CARD
    CUDA_VISIBLE_DEVICES=$3 python3 evaluate.py codec --codec "$2" --cache work/teacher.npy --sentences 40 \
        --workers $((workers / 2)) > "$out/$1.txt"
}

python3 synthesise.py --hours 0.02 --workers 1 --seconds 15 --out work/rehearsal  # the teachers are there, or nothing starts
OMP_NUM_THREADS=1 python3 synthesise.py --hours 75 --seconds 110 --workers $workers &
speech=$!
listened &
first=$!
plain &
second=$!
wait $speech
python3 restore.py --out work/shipped
judge shipped work/shipped/codec.pt ""
wait $second
DEMO_VOICE_DESIGN=designs/wide.toml judge wide work/wide.pt 1 &
third=$!
wait $first
DEMO_VOICE_DESIGN=designs/wide_judged.toml judge wide_judged work/wide_judged.pt 0
wait $third
python3 pack.py work/wide_judged.pt "$out/wide_judged"
python3 pack.py work/wide.pt "$out/wide"
grep -H . "$out"/*.txt
