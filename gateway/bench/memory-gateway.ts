import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { makeTokens, type Tokens } from './bench-tokens.ts'
import { Callers } from './callers.ts'
import { firstMessage, startChild } from './child.ts'
import { gateway } from './contenders/countersign.ts'
import { residentBytesOf } from './kernel.ts'
import type { Filled } from './memory-fill.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const PROBE = new URL('./memory-probe.ts', import.meta.url)
const UPSTREAM = new URL('./bench-upstream.ts', import.meta.url)
/** No limit applies to it, so that no caller is remembered. */
const PATH = '/api/accounts'
/** Requests that compile everything and grow the young generation to full size. */
const WARM_UP = 10_000
const AT_ONCE = 16
const ASKED_SOON = 100

interface Subject {
  readonly port: number
  readonly tokens: readonly string[]
  /** After a full collection. */
  bytes(): Promise<{ readonly heapBytes: number; readonly residentBytes: number }>
}

/** Sends one request with each of so many tokens. How many are then held cannot be seen from outside. */
export async function fillWithTokens(dir: string, count: number): Promise<Omit<Filled, 'held'>> {
  return withGateway(makeTokens(dir, { RS256: 1, ES256: count + 1 }), dir, async (subject) => {
    const [first = '', ...rest] = subject.tokens
    const callers = await Callers.connect(subject.port, AT_ONCE)
    await callers.askAll(WARM_UP, () => requestWith(first))
    const before = await subject.bytes()
    await callers.askAll(rest.length, (index) => requestWith(rest[index] as string))
    const after = await subject.bytes()
    callers.close()
    return differenceOf(before, after)
  })
}

/** Opens connections, each idle after one request. `leftBytes` stays on the heap after they close. */
export async function fillWithConnections(
  dir: string,
  count: number,
  warmUp: number = WARM_UP,
): Promise<Filled & { readonly leftBytes: number }> {
  return withGateway(makeTokens(dir, { RS256: 1, ES256: 1 }), dir, async (subject) => {
    const request = requestWith(subject.tokens[0] as string)
    const few = await Callers.connect(subject.port, AT_ONCE)
    await few.askAll(warmUp, () => request)
    const before = await subject.bytes()
    const many: Callers[] = []
    // In parts, because the gateway would close connections that waited for long.
    for (let i = 0; i < count; i += ASKED_SOON) {
      const some = await Callers.connect(subject.port, Math.min(ASKED_SOON, count - i))
      await some.askEach(request, AT_ONCE)
      many.push(some)
    }
    const after = await subject.bytes()
    const held = many.reduce((sum, { open }) => sum + open, 0)
    for (const some of many) some.close()
    let gone = after
    // A busy gateway notices their end later.
    for (
      let i = 0;
      i < 30 && gone.heapBytes - before.heapBytes > 0.1 * (after.heapBytes - before.heapBytes);
      i++
    ) {
      await sleep(1_000)
      gone = await subject.bytes()
    }
    few.close()
    return { held, ...differenceOf(before, after), leftBytes: gone.heapBytes - before.heapBytes }
  })
}

async function withGateway<T>(
  tokens: Tokens,
  dir: string,
  use: (subject: Subject) => Promise<T>,
): Promise<T> {
  const own = mkdtempSync(join(dir, 'gateway-'))
  const heapFile = join(own, 'heap')
  const upstream = startChild({
    command: [process.execPath, fileURLToPath(UPSTREAM), tokens.jwksFile],
    cpus: undefined,
    ipc: true,
  })
  const { port: upstreamPort } = await firstMessage<{ port: number }>(upstream)
  const contender = gateway({ name: 'gateway', root: ROOT, execArgv: ['--import', PROBE.href] })
  const gatewayEnv = { BENCH_HEAP_FILE: heapFile }
  const running = await contender.start({ dir: own, upstreamPort, tokens, gatewayEnv, cpus: undefined })
  const bytes = async () => {
    const heapBytes = await heapBytesOf(running.pids[0], heapFile)
    return { heapBytes, residentBytes: residentBytesOf(running.pids[0]) }
  }
  try {
    const texts = readFileSync(tokens.files.ES256, 'latin1').split('\n')
    return await use({ port: running.ports[0], tokens: texts, bytes })
  } finally {
    await running.end()
    await upstream.end()
    rmSync(own, { recursive: true, force: true })
  }
}

async function heapBytesOf(pid: number, file: string): Promise<number> {
  rmSync(file, { force: true })
  process.kill(pid, 'SIGUSR2')
  while (!existsSync(file)) await sleep(10)
  return Number(readFileSync(file, 'latin1'))
}

function differenceOf(
  before: { readonly heapBytes: number; readonly residentBytes: number },
  after: { readonly heapBytes: number; readonly residentBytes: number },
): Omit<Filled, 'held'> {
  return {
    heapBytes: after.heapBytes - before.heapBytes,
    residentBytes: after.residentBytes - before.residentBytes,
  }
}

function requestWith(token: string): string {
  return `GET ${PATH} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${token}\r\n\r\n`
}
