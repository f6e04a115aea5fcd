import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { firstMessage, startChild } from './child.ts'
import { machineFacts } from './facts.ts'
import type { Filled } from './memory-fill.ts'
import { fillWithConnections, fillWithTokens } from './memory-gateway.ts'
import { MEMORIES, type Memory } from './memory-rooms.ts'
import { type MemoryRow, renderMemory } from './memory-table.ts'

const PROGRAM = new URL('./memory-process.ts', import.meta.url)
const TOKENS = 100_000
/** The most heap bytes for a token over HTTP, with fields that tell the upstream who calls. */
const TOKEN_OVER_HTTP_BYTES = 2000
const CONNECTIONS = 10_000
/** Files besides connections. */
const OTHER_FILES = 200

await main()

/** `npm run bench:memory`: measures everything that the gateway remembers. Ends with 1 when a bound is broken. */
async function main(): Promise<void> {
  const facts = machineFacts().map((fact) => fact.join(': '))
  const dir = mkdtempSync(join(tmpdir(), 'countersign-memory-'))
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
  say(
    'First each memory is filled in a process of its own, without HTTP: a million requests would take minutes.',
  )
  const rows: MemoryRow[] = []
  for (const [name, memory] of Object.entries<Memory>(MEMORIES)) {
    const { offered, what, bound, mostHeld } = memory
    const filled = await fillApart(name)
    rows.push({ what, offered, bound, ...filled, broken: filled.held > mostHeld || isCostly(filled, memory) })
    say(`${what}: ${filled.held} of ${offered} held`)
  }
  rows.push(await tokensOverHttp(dir), await connectionsOverHttp(dir))
  say(facts.join(' · '))
  say(`\n${renderMemory(rows)}`)
  process.exit(rows.some(({ broken }) => broken) ? 1 : 0)
}

async function fillApart(name: string): Promise<Filled> {
  const child = startChild({
    command: [process.execPath, fileURLToPath(PROGRAM), name],
    cpus: undefined,
    ipc: true,
  })
  return firstMessage<Filled>(child)
}

function isCostly({ held, heapBytes }: Filled, { budgetBytes }: Memory): boolean {
  return heapBytes > held * budgetBytes
}

async function tokensOverHttp(dir: string): Promise<MemoryRow> {
  const what = 'tokens over HTTP, one request each'
  say(`${what}: ${TOKENS} are offered`)
  const { mostHeld, bound } = MEMORIES.tokens
  const filled = { held: mostHeld, ...(await fillWithTokens(dir, TOKENS)) }
  return {
    what,
    offered: TOKENS,
    bound,
    ...filled,
    broken: filled.heapBytes > mostHeld * TOKEN_OVER_HTTP_BYTES,
  }
}

async function connectionsOverHttp(dir: string): Promise<MemoryRow> {
  const files = openFiles()
  const offered = Math.min(CONNECTIONS, files - OTHER_FILES)
  if (offered < CONNECTIONS)
    say(`only ${offered} connections are opened: this process may open no more than ${files} files`)
  const what = 'idle connections after one request'
  say(`${what}: ${offered} are opened`)
  const { leftBytes, ...filled } = await fillWithConnections(dir, offered)
  say(`${what}: ${leftBytes} bytes of heap remain after they are closed`)
  const bound = 'open files of the process; keepAliveMs, 65 s by default'
  return { what, offered, bound, ...filled, broken: filled.held < offered }
}

function openFiles(): number {
  const limit = /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]
  return limit === 'unlimited' ? Number.POSITIVE_INFINITY : Number(limit)
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
