# The image of a release: .goreleaser.yaml puts the binary of each platform, and the licences, into the context.
# The Dockerfile beside README.md builds an image from source.
ARG GO_IMAGE=golang:1.26

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS system
RUN mkdir -p /image/runs /image/tmp /image/etc/ssl/certs \
    && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/

FROM scratch
ARG TARGETPLATFORM
COPY --from=system --chown=65532:65532 /image/ /
COPY LICENSE NOTICE .release/THIRD_PARTY_LICENSES /licenses/
COPY --chown=65532:65532 $TARGETPLATFORM/dlqbench /dlqbench
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/dlqbench"]
CMD ["--help"]
