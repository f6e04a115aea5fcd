import { truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { listening, startChild, versionOf } from '../child.ts'
import type { Contender, ContenderSetup, RunningContender } from '../contender.ts'
import { freePort } from '../unused-port.ts'

/** nginx's free edition: it forwards tokens unchecked. */
export const nginx: Contender = {
  name: 'nginx',
  work: 'no token check; limit by the Authorization header (limit_req), JSON access log, six security headers, request id',
  authenticates: false,
  version: () => versionOf(['nginx', '-v'], /nginx\/(\S+)/),
  start,
}

async function start(setup: ContenderSetup): Promise<RunningContender> {
  const port = await freePort()
  const configFile = join(setup.dir, 'nginx.conf')
  const logFile = join(setup.dir, 'nginx.log')
  writeFileSync(configFile, nginxConfig(setup, { port, logFile }))
  const child = startChild({
    command: ['nginx', '-p', setup.dir, '-e', join(setup.dir, 'nginx-error.log'), '-c', configFile],
    cpus: setup.cpus,
  })
  await listening(child, port)
  return { ports: [port], pids: [child.pid], tidy: () => truncateSync(logFile), end: child.end }
}

function nginxConfig(
  setup: Pick<ContenderSetup, 'upstreamPort' | 'dir' | 'tls' | 'http2' | 'upstreamCaFile'>,
  own: { readonly port: number; readonly logFile: string },
): string {
  const proxy = [
    `proxy_pass ${setup.upstreamCaFile === undefined ? 'http' : 'https'}://service;`,
    ...(setup.upstreamCaFile === undefined
      ? []
      : [
          'proxy_ssl_verify on;',
          `proxy_ssl_trusted_certificate ${setup.upstreamCaFile};`,
          'proxy_ssl_name localhost;',
          'proxy_ssl_server_name on;',
        ]),
    'proxy_http_version 1.1;',
    'proxy_set_header Connection "";',
    'proxy_set_header Host $host;',
    'proxy_set_header X-Request-ID $request_id;',
    'proxy_set_header X-Forwarded-For $remote_addr;',
    'proxy_set_header X-Forwarded-Proto $scheme;',
  ].join('\n    ')
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((kind) => `  ${kind}_temp_path ${setup.dir}/${kind};`)
    .join('\n')
  return `daemon off;
worker_processes 1;
pid ${setup.dir}/nginx.pid;
events { worker_connections 16384; }
http {
${temporary}
  log_format json escape=json '{"time":"$time_iso8601","id":"$request_id","ip":"$remote_addr","method":"$request_method","path":"$uri","agent":"$http_user_agent","status":$status,"seconds":$request_time}';
  access_log ${own.logFile} json;
  keepalive_timeout 65s;
  keepalive_requests 1000000000;
  limit_req_zone $http_authorization zone=callers:32m rate=1000000r/s;
  add_header Strict-Transport-Security "max-age=31536000; includeSubDomains" always;
  add_header X-Content-Type-Options nosniff always;
  add_header X-Frame-Options DENY always;
  add_header X-XSS-Protection "1; mode=block" always;
  add_header Cache-Control no-store always;
  add_header X-Request-ID $request_id always;
  upstream service {
    server 127.0.0.1:${setup.upstreamPort};
    keepalive 256;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${own.port}${setup.tls === undefined ? '' : ' ssl'}${setup.http2 ? ' http2' : ''};
    ${setup.tls === undefined ? '' : `ssl_certificate ${setup.tls.certFile}; ssl_certificate_key ${setup.tls.keyFile}; ssl_session_cache shared:s:8m;`}
    client_max_body_size 2m; proxy_request_buffering off;
    location / {
    limit_req zone=callers burst=100000 nodelay;
    ${proxy}
    }
    location = /api/accounts {
    ${proxy}
    }
    location = /api/archive {
    ${proxy}
    }
    location = /api/data {
    ${proxy}
    }
  }
}
`
}
