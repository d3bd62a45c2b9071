#!/usr/bin/env bash
# The whole recipe on one card that is there for half an hour, from nothing to an export: stages 1 to 6 beside each other.
# Run: ./whole.sh ASKED OUT [small]     ASKED: seconds since 1970 from which the card's time counts; debs/ is there (fetch.sh)
# Every moment below is counted from ASKED, and work/asked is read again at each: write it anew when it is known better.
set -euo pipefail
asked=$1 out=$2 small=${3:+--small}
mkdir -p "$out"
out=$(realpath "$out")
cd "$(dirname "$0")"
mkdir -p work/shards
echo "$asked" > work/asked
export LD_LIBRARY_PATH=$PWD/debs/usr/lib/x86_64-linux-gnu
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2
hours=${HOURS:-150} workers=${WORKERS:-12} loaders=${LOADERS:-11} positions=${POSITIONS:-14000}
codec_end=${CODEC_END:-1020} lm_end=${LM_END:-1580} # the last export has to be fetched 60 s before the card goes
set -m # every job is a process group, so that its children end with it
trap 'for job in $(jobs -p); do kill -- -$job 2>/dev/null || true; done' EXIT
left() { echo $(($(cat work/asked) + $1 - $(date +%s))); }
say() { echo "$(($(date +%s) - $(cat work/asked))) s: $*" | tee -a "$out/course.log"; }

say "speech begins"
nice -n 5 python3 synthesise.py --hours "$hours" --seconds $(($(left "$codec_end") - 30)) --workers "$workers" > "$out/speech.log" 2>&1 &
python3 train_phones.py --seconds "${LISTEN:-50}" --hours 40 $small > "$out/phones.log" 2>&1 &
python3 train_codec.py --seconds $(($(left "$codec_end") - ${CODEC_START:-12})) --hours "$((hours + 10))" \
    --listener work/phones.pt --out work/codec.pt $small > "$out/codec.log" 2>&1 &
codec=$!

python3 text_vocabulary.py > "$out/pieces.log" 2>&1

# the language model's stage is tried on the first speech, with the codec's first checkpoint: a late failure costs more
until [ -s work/codec.pt ] || ! kill -0 $codec 2> /dev/null; do sleep 1; done
cp work/codec.pt work/early.pt
try() { timeout 150 python3 train_lm.py --seconds "${TRIAL:-20}" --codec work/early.pt --hours 4 --loaders 2 --positions "$positions" \
    --every 50 --out work/lm_early.pt "$@"; }
eager=
try > "$out/trial_graphs.log" 2>&1 || { eager=--eager; try --eager > "$out/trial_eager.log" 2>&1 || say "the language model's stage fails"; }
say "language model tried: ${eager:-graphs}; $(tail -n 2 "$out"/trial_*.log | tr '\n' ' ')"
python3 export.py --codec work/early.pt --lm work/lm_early.pt --out work/early > "$out/trial_export.log" 2>&1 || say "the export fails"

while [ "$(left $((codec_end - ${PRELOAD:-60})))" -gt 0 ] && kill -0 $codec 2> /dev/null; do sleep 1; done
echo $(($(cat work/asked) + lm_end)) > work/lm_end
lm() { python3 train_lm.py --codec work/codec_done.pt --hours "$((hours + 10))" --loaders "$loaders" --positions "$positions" \
    --until work/lm_end --out work/lm.pt $eager "$@"; }
lm > "$out/lm.log" 2>&1 &
lm=$!
wait $codec || say "the codec's training failed: going on from its last checkpoint"
touch work/shards/stop
sleep 1 # the speakers end with their shard
cp work/codec.pt work/codec_done.tmp && mv work/codec_done.tmp work/codec_done.pt
say "codec: $(tail -n 1 "$out/codec.log")"
python3 pack.py work/codec_done.pt "$out/codec"
touch work/codec_packed
if ! wait $lm; then
    say "the language model failed: $(tail -n 1 "$out/lm.log"); once more"
    resume=; [ -s work/lm.pt ] && cp work/lm.pt work/lm_first.pt && resume="--resume work/lm_first.pt"
    lm $resume > "$out/lm_again.log" 2>&1 || say "failed again"
fi
say "language model: $(tail -n 1 "$out/lm.log")"
python3 export.py --codec work/codec_done.pt --lm work/lm.pt --out work/demo-voice > "$out/export.log" 2>&1
tar -C work -cf - demo-voice | split -b 15000000 - "$out/voice.tar."
touch work/exported
say "exported: $(cat "$out/export.log")"
