# Two images from one file: `docker build --target gateway .` (the default) and `docker build --target backend .`
# Each has Debian, Node without npm, and what the program needs at run time; a list of all that (SBOM, CycloneDX 1.5) is /app/sbom.cdx.json.
# It runs as the user 1000, and writes to /app/data only.

FROM node:26.10.0-slim AS manifests
WORKDIR /app
COPY package.json package-lock.json ./
COPY gateway/package.json gateway/
COPY backend/package.json backend/
COPY launcher/package.json launcher/sbom.mjs launcher/

FROM manifests AS build
RUN npm ci
COPY . .
RUN npm run build

# Each image takes the modules of its own package: neither the tools (development) nor the pinned Node of the root.
FROM manifests AS backend-modules
RUN npm ci -w backend --omit=dev && npm cache clean --force
RUN rm -rf node_modules/.package-lock.json node_modules/.bin node_modules/countersign*
RUN npm sbom --sbom-format=cyclonedx --package-lock-only -w backend | node launcher/sbom.mjs backend/package.json / > sbom.cdx.json

# Its optional peers too, which the lock file has because the tools of the root use them: `audit.ship.s3` works in the image.
FROM manifests AS gateway-modules
RUN npm ci -w gateway --omit=dev && npm cache clean --force
RUN rm -rf node_modules/.package-lock.json node_modules/.bin node_modules/countersign*
RUN npm sbom --sbom-format=cyclonedx --package-lock-only -w gateway | node launcher/sbom.mjs gateway/package.json / > sbom.cdx.json

# Of all that the image of Node adds to Debian only Node stays.
FROM node:26.10.0-slim AS system
RUN find /usr/local /opt -mindepth 1 ! -path /usr/local/bin ! -path /usr/local/bin/node -delete

# What was removed is in no layer.
FROM scratch AS runtime
COPY --from=system / /
ENV NODE_ENV=production PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
WORKDIR /app
RUN mkdir data && chown 1000:1000 data
USER 1000:1000
VOLUME /app/data

FROM runtime AS backend
LABEL org.opencontainers.image.title="countersign-backend" \
  org.opencontainers.image.description="Users, money and identity behind the gateway, to try it with" \
  org.opencontainers.image.version="0.1.0" \
  org.opencontainers.image.licenses="MIT"
COPY --from=backend-modules /app/node_modules node_modules
COPY --from=backend-modules /app/sbom.cdx.json /app/backend/package.json ./
COPY --from=build /app/dist/backend dist/backend
# Others reach this address, so it takes requests of the gateway only: mount one secret into both containers, and give the
# gateway GATEWAY_UPSTREAM_SECRET_FILE. Without it this one does not start.
ENV BACKEND_HOST=0.0.0.0 BACKEND_GATEWAY_SECRET_FILE=/run/secrets/gateway
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.BACKEND_PORT ?? 3000}/healthz`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/backend/main.js"]

FROM runtime AS gateway
LABEL org.opencontainers.image.title="countersign-gateway" \
  org.opencontainers.image.description="API gateway for financial services" \
  org.opencontainers.image.version="0.1.0" \
  org.opencontainers.image.licenses="MIT"
COPY --from=gateway-modules /app/node_modules node_modules
COPY --from=gateway-modules /app/sbom.cdx.json /app/gateway/package.json ./
COPY --from=build /app/dist/gateway dist/gateway
COPY --from=build /app/dist/config dist/config
COPY config/clients.json config/gateway.json config/limits.json config/
COPY config/compose/gateway.json config/compose/
# The admin listener stays on the container's loopback. To reach it from outside set GATEWAY_ADMIN_HOST=0.0.0.0 and mount a token,
# named by GATEWAY_ADMIN_TOKEN_FILE. The health check asks it where the variables and gateway.json put it.
ENV GATEWAY_HOST=0.0.0.0
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["node", "dist/gateway/cli/countersign.js", "health", "--live"]
CMD ["node", "--min-semi-space-size=32", "--max-semi-space-size=32", "dist/gateway/main.js"]
