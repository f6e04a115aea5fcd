import { openSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AUDIENCE, ISSUER } from '../bench-tokens.ts'
import { listening, startChild, versionOf } from '../child.ts'
import type { Contender, ContenderSetup, RunningContender } from '../contender.ts'
import { freePort } from '../unused-port.ts'

/** HAProxy with the same policy, and a log file like the audit trail. */
export const haproxy: Contender = {
  name: 'HAProxy',
  work: 'token verified each time, exp, iss, aud, sub counted in a stick table, JSON log line, six security headers, request id',
  authenticates: true,
  version: () => versionOf(['haproxy', '-v'], /version (\S+)/),
  start,
}

async function start(setup: ContenderSetup): Promise<RunningContender> {
  const port = await freePort()
  const configFile = join(setup.dir, 'haproxy.cfg')
  const logFile = join(setup.dir, 'haproxy.log')
  writeFileSync(configFile, haproxyConfig(setup, port))
  const child = startChild({
    command: ['haproxy', '-db', '-f', configFile],
    cpus: setup.cpus,
    stdout: openSync(logFile, 'a'),
  })
  await listening(child, port)
  return { ports: [port], pids: [child.pid], tidy: () => truncateSync(logFile), end: child.end }
}

const LOG_LINE = [
  '"time":"%Ts.%ms"',
  '"id":"%ID"',
  '"ip":"%ci"',
  '"user":"%[var(txn.sub),json(ascii)]"',
  '"method":"%HM"',
  '"path":"%[var(txn.path),json(ascii)]"',
  '"agent":"%[var(txn.agent),json(ascii)]"',
  '"status":%ST',
  '"totalMs":%Ta',
].join(',')

const RESPONSE_HEADERS = [
  ['Strict-Transport-Security', '"max-age=31536000; includeSubDomains"'],
  ['X-Content-Type-Options', 'nosniff'],
  ['X-Frame-Options', 'DENY'],
  ['X-XSS-Protection', '"1; mode=block"'],
  ['Cache-Control', 'no-store'],
  ['X-Request-ID', '%[unique-id]'],
] as const

/** HAProxy verifies only the signature; rules check issuer, audience and expiry. */
function haproxyConfig(
  setup: Pick<ContenderSetup, 'upstreamPort' | 'tokens' | 'tls' | 'http2' | 'upstreamCaFile'>,
  port: number,
): string {
  const { publicKeyFiles } = setup.tokens
  const refusedUnless = (algorithm: 'RS256' | 'ES256') =>
    `    http-request deny deny_status 401 if { var(txn.alg) -m str ${algorithm} } !{ var(txn.bearer),jwt_verify("${algorithm}","${publicKeyFiles[algorithm]}") -m int 1 }`
  return `${[
    'global',
    '    nbthread 1',
    '    maxconn 8192',
    '    log stdout format raw local0',
    'defaults',
    '    mode http',
    '    log global',
    '    timeout client 65s',
    '    timeout server 30s',
    '    timeout connect 2s',
    '    timeout http-request 10s',
    '    timeout http-keep-alive 65s',
    '    unique-id-format %[uuid()]',
    '    unique-id-header X-Request-ID',
    `    log-format '{${LOG_LINE}}'`,
    'backend callers',
    '    stick-table type string len 64 size 100k expire 1m store http_req_rate(1m)',
    'frontend public',
    `    bind 127.0.0.1:${port}${setup.tls === undefined ? '' : ` ssl crt ${setup.tls.bothFile} alpn ${setup.http2 ? 'h2,' : ''}http/1.1`}`,
    '    http-request set-var(txn.path) path',
    '    http-request set-var(txn.agent) req.hdr(user-agent)',
    '    http-request set-var(txn.bearer) http_auth_bearer',
    "    http-request set-var(txn.alg) var(txn.bearer),jwt_header_query('$.alg')",
    '    http-request deny deny_status 401 unless { var(txn.alg) -m str RS256 ES256 }',
    refusedUnless('RS256'),
    refusedUnless('ES256'),
    `    http-request deny deny_status 401 unless { var(txn.bearer),jwt_payload_query('$.iss') -m str "${ISSUER}" }`,
    `    http-request deny deny_status 401 unless { var(txn.bearer),jwt_payload_query('$.aud') -m str "${AUDIENCE}" }`,
    "    http-request set-var(txn.exp) var(txn.bearer),jwt_payload_query('$.exp','int')",
    '    http-request set-var(txn.now) date()',
    '    http-request deny deny_status 401 unless { var(txn.exp),sub(txn.now) -m int gt 0 }',
    "    http-request set-var(txn.sub) var(txn.bearer),jwt_payload_query('$.sub')",
    '    http-request track-sc0 var(txn.sub) table callers unless { path /api/accounts /api/data /api/archive }',
    '    http-request deny deny_status 429 if { sc0_http_req_rate gt 1000000000 }',
    '    http-request set-header X-Forwarded-For %[src]',
    '    http-request set-header X-Forwarded-Proto http',
    '    http-request set-header X-Auth-Subject %[var(txn.sub)]',
    ...RESPONSE_HEADERS.map(([name, value]) => `    http-after-response set-header ${name} ${value}`),
    '    default_backend service',
    'backend service',
    '    http-reuse always',
    `    server one 127.0.0.1:${setup.upstreamPort}${setup.upstreamCaFile === undefined ? '' : ` ssl verify required ca-file ${setup.upstreamCaFile} sni str(localhost) verifyhost localhost`}`,
  ].join('\n')}\n`
}
