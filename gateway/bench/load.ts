import { createPrivateKey, hash, sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import type { LoadJob, LoadReply, LoadRequest } from './load-job.ts'
import { type Cycle, LoadRun } from './load-run.ts'

// The load generator. In its own process it does its parent's jobs one by one.

const TICK_MS = 0.25
const HOST = 'api.example.test'
/** Signature parameters, with placeholders for what differs by request. */
const PARAMS =
  '("@method" "@target-uri" "authorization" "content-digest");created=CREATED---;keyid="ES256";tag="fapi-2-request"'
const SIGNATURE = 'SIGNATURE'.padEnd(88, '-')
const prepared = new Map<string, Prepared>()
const cycles = new Map<string, Cycle>()

process.on('message', (job: LoadJob) => {
  carryOut(job).then(
    (reply) => process.send?.(reply),
    (error: unknown) => process.send?.({ fault: error instanceof Error ? error.message : String(error) }),
  )
})
process.on('disconnect', () => process.exit(0))

async function carryOut(job: LoadJob): Promise<LoadReply> {
  const { requests, bases } = preparedFor(job.request)
  const run = new LoadRun(job, requests, cycleOf(job), signing(job, bases))
  if (job.perSecond === undefined) return { result: await run.closedLoop() }
  // Node's timers have a resolution of 1 ms, longer than most responses take.
  const ticker = new Worker(new URL('./ticker.ts', import.meta.url), { workerData: TICK_MS })
  ticker.on('message', () => run.tick())
  try {
    return { result: await run.openLoop(job.perSecond) }
  } finally {
    await ticker.terminate()
  }
}

function cycleOf({ ports }: LoadJob): Cycle {
  const key = ports.join()
  const cycle = cycles.get(key) ?? { turn: 0 }
  cycles.set(key, cycle)
  return cycle
}

interface Prepared {
  readonly requests: readonly Buffer[]
  /** What the client signs (RFC 9421 section 2.5). */
  readonly bases: readonly string[]
}

function preparedFor(request: LoadRequest): Prepared {
  const key = JSON.stringify(request)
  let known = prepared.get(key)
  if (known === undefined) {
    const tokens = readFileSync(request.tokensFile, 'latin1').split('\n').slice(0, request.tokens)
    known = {
      requests: tokens.map((token, i) => Buffer.from(requestText(request, { token, caller: i }), 'latin1')),
      bases: request.signed === true ? tokens.map((token) => baseOf(request, token)) : [],
    }
    prepared.set(key, known)
  }
  return known
}

function baseOf({ method, path, body }: LoadRequest, token: string): string {
  return [
    `"@method": ${method}`,
    `"@target-uri": https://${HOST}${path}`,
    `"authorization": Bearer ${token}`,
    `"content-digest": ${digestOf(body)}`,
    `"@signature-params": ${PARAMS}`,
  ].join('\n')
}

function digestOf(body: string): string {
  return `sha-256=:${hash('sha256', body, 'base64')}:`
}

/** Returns a function that signs each request, because no signature is good twice. Undefined: none is signed. */
function signing({ request: { signed }, signingKeyFile }: LoadJob, bases: readonly string[]) {
  if (signed !== true || signingKeyFile === undefined) return undefined
  const key = { key: createPrivateKey(readFileSync(signingKeyFile)), dsaEncoding: 'ieee-p1363' } as const
  const places = new Map<Buffer, { readonly createdAt: number; readonly signatureAt: number }>()
  return (request: Buffer, index: number): void => {
    const place = places.get(request) ?? {
      createdAt: request.indexOf('created=') + 'created='.length,
      signatureAt: request.indexOf('\r\nSignature: sig=:') + '\r\nSignature: sig=:'.length,
    }
    places.set(request, place)
    const created = String(Math.floor(Date.now() / 1000))
    const base = (bases[index] as string).replace('CREATED---', created)
    request.write(created, place.createdAt, 'latin1')
    request.write(sign('sha256', Buffer.from(base), key).toString('base64'), place.signatureAt, 'latin1')
  }
}

function requestText(
  { method, path, body: template, fields = [], signed }: LoadRequest,
  { token, caller }: { readonly token: string; readonly caller: number },
): string {
  const body = template.replace('$caller', String(caller))
  const head = [
    `${method} ${path} HTTP/1.1`,
    `Host: ${HOST}`,
    'User-Agent: bench/1',
    'Accept: application/json',
    `Authorization: Bearer ${token}`,
    ...fields,
  ]
  if (signed === true)
    head.push(
      `Content-Digest: ${digestOf(body)}`,
      `Signature-Input: sig=${PARAMS}`,
      `Signature: sig=:${SIGNATURE}:`,
    )
  if (body !== '') head.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`)
  return `${head.join('\r\n')}\r\n\r\n${body}`
}
