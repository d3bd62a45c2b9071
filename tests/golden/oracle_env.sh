#!/bin/sh
# Make .venv-oracle, the environment of the reference implementation (qwen-tts 0.1.1).
#
# It serves to make golden files and to compare a checkpoint live; the product never imports it.
# Idempotent: a finished environment carries a stamp with the checksum of this script.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
venv=${ORACLE_VENV:-$root/.venv-oracle}
python=${PYTHON:-python3.11}
stamp=$venv/.complete
wanted=$(cksum < "$0")

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

rm -f "$stamp"
"$python" -m venv --clear "$venv"

# torch comes first and alone, so that nothing pulls the CUDA build. A configured index or wheel
# folder may hold the CPU build already; else PyTorch's own index has it.
"$venv/bin/pip" install --quiet "torch==2.13.0+cpu" 2> /dev/null ||
    "$venv/bin/pip" install --quiet --extra-index-url https://download.pytorch.org/whl/cpu "torch==2.13.0+cpu"
"$venv/bin/pip" install --quiet \
    "transformers==4.57.3" "accelerate==1.12.0" "numpy==2.4.6" "safetensors==0.8.0" \
    "librosa==0.11.0" "soundfile>=0.13" "einops==0.8.1"
"$venv/bin/pip" install --quiet --no-deps "qwen-tts==0.1.1"

# The package imports these three at load, for its 25 Hz tokenizer only: empty stand-ins do.
site=$("$venv/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
for name in sox onnxruntime; do
    printf '"""Empty stand-in: the 12 Hz path of qwen-tts never calls it."""\n' > "$site/$name.py"
done
mkdir -p "$site/torchaudio/compliance"
for name in torchaudio/__init__ torchaudio/compliance/__init__ torchaudio/compliance/kaldi; do
    printf '"""Empty stand-in: the 12 Hz path of qwen-tts never calls it."""\n' > "$site/$name.py"
done

"$venv/bin/python" -c "import qwen_tts" > /dev/null
printf '%s' "$wanted" > "$stamp"
