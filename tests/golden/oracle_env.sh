#!/bin/sh
# Create .venv-oracle, the environment of the reference implementation (qwen-tts 0.1.1).
#
# It generates golden files, and tests compare checkpoints with it. The product never imports it. The file .complete
# contains the checksum of this script. If the checksum is unchanged, the script does nothing.
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

# Install the CPU build of torch first, because the other packages would install the CUDA build. PyTorch's index is used
# only if the configured package index does not have the CPU build.
"$venv/bin/pip" install --quiet "torch==2.13.0+cpu" 2> /dev/null ||
    "$venv/bin/pip" install --quiet --extra-index-url https://download.pytorch.org/whl/cpu "torch==2.13.0+cpu"
"$venv/bin/pip" install --quiet \
    "transformers==4.57.3" "accelerate==1.12.0" "numpy==2.4.6" "safetensors==0.8.0" \
    "librosa==0.11.0" "soundfile>=0.13" "einops==0.8.1"
"$venv/bin/pip" install --quiet --no-deps "qwen-tts==0.1.1"

# qwen-tts imports these three packages only for its 25 Hz tokenizer, so empty modules replace them.
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
