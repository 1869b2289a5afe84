# One image for `wyrd serve` and `wyrd worker`: the wheel with its server extra, run by nobody special.
#
#   docker build --tag wyrd .
#   docker run --rm wyrd --help

ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS wheel
WORKDIR /source
RUN pip install --no-cache-dir 'build>=1.2' 'hatchling>=1.27'
# .dockerignore lets through what the wheel is made of, and nothing else.
COPY . .
RUN python -m build --no-isolation --wheel --outdir /dist

FROM ${PYTHON}
ENV PYTHONUNBUFFERED=1 \
    WYRD_HOME=/var/lib/wyrd
RUN groupadd --gid 10001 wyrd \
    && useradd --uid 10001 --gid wyrd --no-create-home --home-dir /var/lib/wyrd --shell /usr/sbin/nologin wyrd \
    && install --directory --owner=wyrd --group=wyrd --mode=0700 /var/lib/wyrd
RUN --mount=type=bind,from=wheel,source=/dist,target=/dist \
    pip install --no-cache-dir "$(ls /dist/*.whl)[server]"
USER wyrd
WORKDIR /var/lib/wyrd
EXPOSE 8080 50051
ENTRYPOINT ["wyrd"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8080"]
