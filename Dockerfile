# Two images from one file: `docker build --target gateway .` (the default) and `docker build --target backend .`

FROM node:26-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci
COPY . .
RUN npm run build

FROM node:26-slim AS modules
WORKDIR /app
COPY package.json package-lock.json ./
# The image has its Node already: neither the pinned one (optional) nor the tools (development) are taken.
RUN npm ci --omit=dev --omit=optional && npm cache clean --force

FROM node:26-slim AS runtime
ENV NODE_ENV=production
WORKDIR /app
COPY --from=modules /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY config ./config
RUN mkdir data && chown node:node data
USER node
VOLUME /app/data

FROM runtime AS backend
# Others reach this address, so it takes requests of the gateway only: mount one secret into both containers, and give the
# gateway GATEWAY_UPSTREAM_SECRET_FILE. Without it this one does not start.
ENV BACKEND_HOST=0.0.0.0 BACKEND_GATEWAY_SECRET_FILE=/run/secrets/gateway
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.BACKEND_PORT ?? 3000}/healthz`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/backend/main.js"]

FROM runtime AS gateway
ENV GATEWAY_HOST=0.0.0.0 GATEWAY_ADMIN_HOST=0.0.0.0
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.GATEWAY_ADMIN_PORT ?? 9090}/healthz`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "--min-semi-space-size=32", "--max-semi-space-size=32", "dist/gateway/main.js"]
