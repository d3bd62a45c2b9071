# Container image with the studio and its runtime, on one port.
#
#   docker build -t voicewright . && docker run -p 7860:7860 voicewright                                   on a CPU
#   docker build -t voicewright:cuda --build-arg VARIANT=cuda . && docker run --gpus all -p 7860:7860 voicewright:cuda
#
# VARIANT is cpu or cuda. `--target cpu` and `--target cuda` have the same effect. TORCH_INDEX is the package index of
# another torch build. pytorch.org lists the index of each CUDA version. docs/deploy.md describes the image.
ARG VARIANT=cpu

FROM python:3.11-slim-bookworm AS base

# --- Build stages, which are not part of the image

FROM base AS venv
WORKDIR /build
RUN python3 -m venv /venv
COPY requirements.lock requirements-dev.lock ./

# Wheels of this repository's packages: the app and the Python client. A lock file pins the build tools.
FROM venv AS wheel
RUN grep -E '^(hatchling|packaging|pathspec|pluggy|tomlkit|trove-classifiers)==' requirements-dev.lock > build.lock \
    && /venv/bin/pip install --no-cache-dir --no-deps -r build.lock
COPY . source
RUN /venv/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheel ./source/clients/python ./source

FROM venv AS packages-cpu
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# The version of the compiler is not pinned. It is the distribution's, and is not part of the image.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
RUN /venv/bin/pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" -r requirements.lock
COPY --from=wheel /wheel /wheel
RUN /venv/bin/pip install --no-cache-dir --no-deps /wheel/*.whl && /venv/bin/python -m runtime.device.native

# Triton loads kernels with a small C module. It is compiled here, without a GPU, so the image needs no compiler.
FROM venv AS packages-cuda
ARG TORCH_INDEX=""
# The version of the compiler is not pinned. It is the distribution's, and is not part of the image.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
RUN /venv/bin/pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -r requirements.lock
COPY spaces/triton_launcher.py ./
RUN TRITON_CACHE_DIR=/triton /venv/bin/python triton_launcher.py make
COPY --from=wheel /wheel /wheel
RUN /venv/bin/pip install --no-cache-dir --no-deps /wheel/*.whl

# --- Image

FROM base AS image
# Create the folders for volumes. Docker would create missing folders as root, and the user could not write to them.
RUN useradd --create-home --uid 1000 user \
    && install --directory --owner=1000 --group=1000 /home/user/app /home/user/.cache /home/user/.cache/huggingface \
       /home/user/.cache/triton /home/user/.local /home/user/.local/share /home/user/.local/share/voicewright
COPY --chown=1000:1000 app.py /home/user/app/app.py
USER 1000
WORKDIR /home/user/app
ENV HOME=/home/user \
    PATH=/venv/bin:/usr/local/bin:/usr/bin:/bin \
    HF_HOME=/home/user/.cache/huggingface \
    TRITON_CACHE_DIR=/home/user/.cache/triton \
    GRADIO_ANALYTICS_ENABLED=False \
    GRADIO_SSR_MODE=false \
    HOST=0.0.0.0 \
    PORT=7860 \
    PYTHONUNBUFFERED=1
EXPOSE 7860
# The port responds within seconds after the start, even while a checkpoint is being loaded.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["/venv/bin/python", "-c", "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/health')"]
CMD ["/venv/bin/python", "app.py"]

FROM image AS cpu
COPY --from=packages-cpu /venv /venv

FROM image AS cuda
COPY --from=packages-cuda /venv /venv
COPY --from=packages-cuda --chown=1000:1000 /triton /home/user/.cache/triton
COPY spaces/triton_launcher.py /tmp/triton_launcher.py
RUN python /tmp/triton_launcher.py check
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

FROM ${VARIANT} AS studio
