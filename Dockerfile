# The studio and its runtime in one container, one port: `docker build -t voicewright . && docker run -p 7860:7860 voicewright`.
#
# TORCH_INDEX chooses torch's build (pytorch.org names the index of each CUDA version, and of the CPU-only build);
# empty takes the package index's own.
FROM python:3.11-slim AS packages
ARG TORCH_INDEX=""
WORKDIR /build
RUN python -m venv /venv
COPY requirements.lock .
RUN /venv/bin/pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url $TORCH_INDEX} -r requirements.lock
COPY . .
RUN /venv/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11-slim
RUN useradd --create-home --uid 1000 user
COPY --from=packages /venv /venv
COPY --chown=user app.py /home/user/app/app.py
USER user
WORKDIR /home/user/app
ENV HOME=/home/user \
    HF_HOME=/home/user/.cache/huggingface \
    GRADIO_ANALYTICS_ENABLED=False \
    GRADIO_SSR_MODE=false \
    HOST=0.0.0.0 \
    PORT=7860 \
    PYTHONUNBUFFERED=1
EXPOSE 7860
HEALTHCHECK --start-period=120s CMD ["/venv/bin/python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:7860/health')"]
CMD ["/venv/bin/python", "app.py"]
