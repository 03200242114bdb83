# dlqbench as an image: a static binary that runs without root and writes to /runs.
#
#   docker build -t dlqbench:local .                      builds it from source
#   docker build -t dlqbench:local --target prebuilt .    takes dist/image (a static dlqbench, and the empty folders runs
#                                                         and tmp), and needs no other image: docs/docker.md
ARG GO_IMAGE=golang:1.26

FROM scratch AS prebuilt
COPY --chown=65532:65532 dist/image/ /
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/dlqbench"]
CMD ["--help"]

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /image/dlqbench ./cmd/dlqbench \
    && mkdir -p /image/runs /image/tmp /image/etc/ssl/certs \
    && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/

FROM scratch
COPY --from=build --chown=65532:65532 /image/ /
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/dlqbench"]
CMD ["--help"]
