#!/usr/bin/env bash
# Run all stages (speech, training, export and evaluation) on a machine with one or two GPUs that is available for half an hour.
# Run: ./whole.sh START OUT     START: Unix time at which the machine's time started. Run fetch.sh first to fill work/.
# All times below are seconds after START. The first GPU trains the codec, and then only the decoder. The last GPU generates speech
# and trains the language model. OUT gets logs, and the exported voice after each stage, because the machine may be taken away early.
# FROM: folder of an exported voice. Its codes and text vocabulary do not change, and the training of its decoder and language model
# continues. The first GPU generates speech and trains the decoder, so that the last GPU only trains the language model.
# WARM: folder of an exported voice. The training of the codec starts with its encoder and decoder, and with new codebooks.
set -euo pipefail
start=$1 out=$2
mkdir -p "$out"
out=$(realpath "$out")
cd "$(dirname "$0")"
mkdir -p work/shards
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2
hours=${HOURS:-55} sentences=${SENTENCES:-240} workers=${WORKERS:-7} codec_end=${CODEC_END:-700}
room=$((${hours%.*} + 5)) # Hours of audio that fit into the memory of the GPU.
last=$(($(nvidia-smi --list-gpus 2> /dev/null | wc -l || true) > 1))
speaking=$last # Index of the GPU that generates speech.
[ -z "${FROM:-}" ] || speaking=0
codec=${FROM:-work/codec.pt} lm=${FROM:-work/lm_early.pt} # Networks with which the decoder and the language model begin.
set -m # Each job is a process group, so that kill also ends its child processes.
trap 'for job in $(jobs -p); do kill -- -$job 2> /dev/null || true; done' EXIT
say() { echo "$(($(date +%s) - start)) s: $*" | tee -a "$out/course.log"; }
fails() { say "$1 FAILED: $(tail -n 1 "$2")"; }
on() { CUDA_VISIBLE_DEVICES=$1 "${@:2}"; }
train_lm() { on "$last" python3 train_lm.py --hours "$room" --loaders "${LOADERS:-8}" --positions "${POSITIONS:-14000}" "$@"; }
train_codec() { on 0 python3 train_codec.py --hours "$room" "$@"; }
keep() { # Export the voice with the weights CODEC and LM into OUT.
    python3 export.py --codec "$1" --lm "$2" --out work/demo-voice > "$out/export.log" 2>&1 || { fails "the export" "$out/export.log"; return; }
    tar -C work -cf - demo-voice | split -b 15000000 - "$out/voice.tar."
    say "exported: $(tail -n 1 "$out/export.log")"
}
finish() { # Start the last trainings. The arguments are options of train_lm.py.
    train_lm --codec "$codec" --resume "$lm" --until work/end ${LM_RATE:+--rate $LM_RATE} "$@" > "$out/lm.log" 2>&1 &
    training=$!
    train_codec --frozen --resume "$codec" --rate "${DECODER_RATE:-3e-4}" --until work/end --out work/decoder.pt > "$out/decoder.log" 2>&1 &
    decoder=$!
}
echo $((start + codec_end)) > work/codec_end
echo $((start + codec_end - 12)) > work/early_end
echo $((start + ${END:-1330})) > work/end

say "speech begins"
on "$speaking" python3 speak.py --hours "$hours" ${BATCH:+--batch $BATCH} > "$out/speech.log" 2>&1 &
speech=$!
if [ -n "${FROM:-}" ]; then # The codes do not change, so all training begins while speech is generated.
    cp "$FROM"/{vocab.json,merges.txt,tokenizer_config.json} work
    finish --min-hours "${MIN_HOURS:-12}"
else
    python3 text_vocabulary.py > "$out/pieces.log" 2>&1
    train_codec ${WARM:+--resume "$WARM"} --until work/codec_end > "$out/codec.log" 2>&1 &
    training=$!
fi
wait $speech || { fails speech "$out/speech.log"; exit 1; } # Without speech, all other jobs would wait until the end.
say "speech: $(tail -n 1 "$out/speech.log")"

if [ -z "${FROM:-}" ]; then # Train the language model with codes of the unfinished codec first, and then with the final codes.
    until [ -s work/codec.pt ] || ! kill -0 $training 2> /dev/null; do sleep 1; done
    cp work/codec.pt work/codec_early.pt
    train_lm --codec work/codec_early.pt --until work/early_end --out work/lm_early.pt > "$out/lm_early.log" 2>&1 \
        || fails "the language model" "$out/lm_early.log"
    say "early language model: $(tail -n 1 "$out/lm_early.log")"
    keep work/codec_early.pt work/lm_early.pt
    wait $training || fails "the codec" "$out/codec.log"
    say "codec: $(tail -n 1 "$out/codec.log")"
    keep work/codec.pt work/lm_early.pt
    finish
fi
wait $training || fails "the language model" "$out/lm.log"
wait $decoder || fails "the decoder" "$out/decoder.log"
say "language model: $(tail -n 1 "$out/lm.log"); decoder: $(tail -n 1 "$out/decoder.log")"
[ ! -s work/decoder.pt ] || codec=work/decoder.pt
keep "$codec" work/lm.pt
judge() { on "$1" python3 evaluate.py "${@:3}" --sentences "$sentences" --workers "$workers" > "$out/$2.txt" 2> "$out/$2.err" || fails "judging $2" "$out/$2.err"; }
judge 0 tts &
judge "$last" streaming --layout streaming &
wait
say "judged"
