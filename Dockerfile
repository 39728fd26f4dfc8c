# docker build -t nameward .
# docker run --rm -p 53:53/udp -p 53:53/tcp -v ./nameward:/etc/nameward:ro -v nameward-state:/var/lib/nameward nameward
FROM rust:1.95-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends cmake && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY . .
RUN cargo build --profile dist --locked --package nameward && strip --strip-all target/dist/nameward

FROM debian:bookworm-slim
# A fixed number, so that volumes can be given to it.
RUN useradd --system --uid 953 --user-group --home-dir /var/lib/nameward --shell /usr/sbin/nologin nameward \
    && install -d -o nameward -g nameward /var/lib/nameward /run/nameward /etc/nameward/zones
COPY --from=build /build/target/dist/nameward /usr/bin/nameward
COPY contrib/debian/sample.example.zone /etc/nameward/zones/
# In a container all addresses are those of the container.
RUN printf '[server]\nlisten = ["0.0.0.0:53", "[::]:53"]\n\n[[backend]]\ntype = "file"\ndirectory = "zones"\n' \
    >/etc/nameward/nameward.toml
USER nameward
ENV RUNTIME_DIRECTORY=/run/nameward STATE_DIRECTORY=/var/lib/nameward
VOLUME /var/lib/nameward
EXPOSE 53/udp 53/tcp
STOPSIGNAL SIGTERM
# The server answers on its control socket. Large sets of zones take their time to load.
HEALTHCHECK --interval=30s --timeout=10s --start-period=5m --retries=3 \
    CMD ["/usr/bin/nameward", "status", "--config", "/etc/nameward/nameward.toml"]
ENTRYPOINT ["/usr/bin/nameward"]
CMD ["serve", "--config", "/etc/nameward/nameward.toml"]
