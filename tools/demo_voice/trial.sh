#!/usr/bin/env bash
# Tries two designs of the codec with a listener, wide on the first card and wide_read on the second, and judges them by words.
# Run: ./trial.sh train SECONDS OUT      two cards and debs/ (fetch.sh); OUT gets the logs and the packed states
#      ./trial.sh more SECONDS OUT       wide goes on at 2e-4 over the speech that is there, on one card with the listener
#      ./trial.sh judge OUT [SENTENCES]  debs/ and pocketsphinx, no card: the shipped codec and every state in OUT
set -euo pipefail
verb=$1
[ "$verb" = judge ] && out=$2 sentences=${3:-40} || { seconds=$2 out=$3; }
mkdir -p "$out"
out=$(realpath "$out")
cd "$(dirname "$0")"
mkdir -p work
hours=${HOURS:-200} # of speech, and of room for it on each card: 0.17 GB an hour
export LD_LIBRARY_PATH=$PWD/debs/usr/lib/x86_64-linux-gnu PYTHONUNBUFFERED=1
set -m # every job is a process group, so that its children end with it
trap 'for job in $(jobs -p); do kill -- -$job 2>/dev/null || true; done' EXIT

codec() { # CARD DESIGN NAME SECONDS [ARGUMENTS]: trains, and packs what came of it
    CUDA_VISIBLE_DEVICES=$1 DEMO_VOICE_DESIGN=designs/$2.toml python3 train_codec.py --seconds "$4" --hours "$hours" \
        --out "work/$3.pt" "${@:5}" > "$out/$3.log" 2>&1
    [ "$3" = rehearsal ] || python3 pack.py "work/$3.pt" "$out/$3"
}
listener() {
    CUDA_VISIBLE_DEVICES=0 python3 train_phones.py --seconds 40 --hours 60 > "$out/phones.log" 2>&1
}
rehearsal() { # every phase is captured once, beside the listener's training: a late failure costs more
    python3 -c "import torch; from phone_net import PhoneNet; torch.save(PhoneNet().state_dict(), 'work/untrained.pt')"
    codec 1 wide_read rehearsal 3 --listener work/untrained.pt
}
both() { # waits for the two jobs; the second may succeed where the first fails
    wait "$first" || failed=1
    wait "$second" || failed=1
    tail -n 3 "$out"/*.log
    exit "${failed:-0}"
}

case $verb in
train)
    python3 - <<'PYTHON'
import random
from pathlib import Path
from synthesise import Studio, named_voices, random_espeak
studio = Studio(Path("debs"))
for voice in (*named_voices().values(), random_espeak(random.Random(0))):
    studio.record("One, two, three.", voice, 1.0)
PYTHON
    workers=$(($(nproc) - 4))
    OMP_NUM_THREADS=1 nice -n 5 python3 synthesise.py --hours $((hours - 5)) --seconds "$seconds" --workers $workers > "$out/speech.log" 2>&1 &
    listener &
    listening=$!
    rehearsal &
    wait $! || { tail -n 30 "$out/rehearsal.log"; exit 1; }
    wait $listening || { tail -n 30 "$out/phones.log"; exit 1; }
    codec 0 wide wide "$seconds" --listener work/phones.pt --rate 6e-4 &
    first=$!
    codec 1 wide_read wide_read "$seconds" --listener work/phones.pt --rate 6e-4 &
    second=$!
    both
    ;;
more)
    codec 0 wide wide_heard "$seconds" --listener work/phones.pt --resume work/wide.pt --rate 2e-4 &
    first=$!
    codec 1 wide wide_more "$seconds" --resume work/wide.pt --rate 2e-4 &
    second=$!
    both
    ;;
judge)
    evaluate() { # CHECKPOINT NAME
        python3 evaluate.py codec --codec "$1" --cache work/teacher.npy --sentences "$sentences" --workers "$(nproc)" > "$out/$2.txt"
    }
    python3 restore.py --out work/shipped
    evaluate work/shipped/codec.pt shipped
    for part in "$out"/*.0.safetensors; do
        name=$(basename "$part" .0.safetensors) # the designs differ in training, not in shape
        python3 pack.py --join "$out/$name" "work/$name.pt"
        DEMO_VOICE_DESIGN=designs/wide.toml evaluate "work/$name.pt" "$name"
    done
    grep -H ^all "$out"/*.txt
    ;;
esac
