import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { askRestart, type RestartReport } from '../runtime/restart/control-socket.ts'
import { type AuditRecord, readAudit } from '../testing/audit-file.ts'
import { placesIn, writeConfiguration } from '../testing/configuration-files.ts'
import type { RunningProcess } from '../testing/running-process.ts'
import { type Environment, endAfterAll, run } from './child-process.ts'
import { call, type ReceivedResponse } from './client.ts'

interface Files {
  /** gateway.json; free ports override its addresses. */
  readonly config: object
  /** Rows of limits.json; default: none. */
  readonly limits?: readonly object[]
  /** Rows of clients.json; default: none. */
  readonly clients?: readonly object[]
}

export interface GatewayOptions extends Files {
  readonly env?: Environment
  /** An earlier run's directory, to start where it ended. */
  readonly dir?: string
}

/** A gateway as a real process on free ports, in its own directory. */
export interface TestGateway {
  readonly process: RunningProcess
  readonly dir: string
  readonly port: number
  readonly url: string
  /** Undefined without an HTTPS listener. */
  readonly tlsPort: number | undefined
  readonly adminUrl: string
  readonly limitsFile: string
  readonly clientsFile: string
  readonly auditFile: string
  audit(): AuditRecord[]
  /** Waits for both records of the request. */
  pair(requestId: string): Promise<[AuditRecord, AuditRecord]>
  /**
   * A sample's value, by its name and labels; 0 if there is none. Calls made at once share a scrape.
   *
   * @throws when the metric is not documented
   */
  metric(sample: string): Promise<number>
  /** Puts these files in force, which is cheaper than a start. @throws when one has a fault or needs a restart */
  become(files: Partial<Files>): Promise<void>
  /** Replaces the process by a new one, once no process of an earlier restart is left. */
  restart(): Promise<RestartReport>
  /** @throws when a stage has failed, or the exit code after SIGTERM is not 0 */
  end(signal?: NodeJS.Signals): Promise<number | string>
  /** Kills the process and, after restarts, the one that serves. */
  kill(): void
}

/** Pauses of {@link until} between two looks. */
const FIRST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 100
const DOCUMENTED = readFileSync(new URL('../../docs/reference/metrics.md', import.meta.url), 'utf8')
const dirs = new Set<string>()
process.on('exit', () => {
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true })
})

export async function startGateway(options: GatewayOptions): Promise<TestGateway> {
  const dir = options.dir ?? mkdtempSync(join(tmpdir(), 'countersign-'))
  const file = (name: string) => join(dir, name)
  const limitsFile = file('limits.json')
  const clientsFile = file('clients.json')
  const auditFile = file('audit.ndjson')
  if (options.dir === undefined) {
    dirs.add(dir)
    writeConfiguration(dir, options)
  }
  const child = run('gateway/main.ts', {
    GATEWAY_CONFIG: file('gateway.json'),
    GATEWAY_LIMITS: limitsFile,
    GATEWAY_CLIENTS: clientsFile,
    ...placesIn(dir),
    ...options.env,
  })
  const started = await child.line((line) => line.msg === 'listening')
  const port = Number(started.port)
  const adminUrl = `http://127.0.0.1:${started.adminPort}`
  const audit = () => readAudit(auditFile)
  let scrape: Promise<ReceivedResponse> | undefined
  const scraped = () => {
    if (scrape === undefined) queueMicrotask(() => (scrape = undefined))
    scrape ??= call(`${adminUrl}/metrics`)
    return scrape
  }
  return {
    process: child,
    dir,
    port,
    url: `http://127.0.0.1:${port}`,
    tlsPort: started.tlsPort as number | undefined,
    adminUrl,
    limitsFile,
    clientsFile,
    auditFile,
    audit,
    pair: (requestId) => pairOf(audit, requestId),
    metric: async (sample) => sampleOf((await scraped()).body, sample),
    become: async ({ config, limits, clients }) => {
      if (config !== undefined) writeFileSync(file('gateway.json'), JSON.stringify(config))
      if (limits !== undefined) writeFileSync(limitsFile, JSON.stringify({ limits }))
      if (clients !== undefined) writeFileSync(clientsFile, JSON.stringify({ clients }))
      const { status, body } = await call(`${adminUrl}/reload`, { method: 'POST' })
      const results: object = JSON.parse(body)
      if (status !== 200 || Object.values(results).some(({ needsRestart }) => needsRestart.length > 0))
        throw new Error(`not in force: ${body}`)
    },
    restart: () =>
      until(async () => {
        const report = await askRestart(file('data'))
        return /try again later/.test(report.text) ? undefined : report
      }),
    end: (signal = 'SIGTERM') => endOf(child, signal),
    kill: () => {
      child.child.kill('SIGKILL')
      killWriter(audit())
    },
  }
}

/** Gateways by the value of `http2`, because changing it needs a restart. */
const common = new Map<unknown, Promise<TestGateway>>()

/**
 * One gateway for all suites of a process, with these files in force until the next suite. Without a throttle, wrong
 * credentials of one suite do not disturb the next. Records, lines and metrics of earlier suites stay.
 */
export async function commonGateway({ config, limits = [], clients = [] }: Files): Promise<TestGateway> {
  const files = { config: { authThrottle: { failures: 0, window: '1m' }, ...config }, limits, clients }
  const { http2 } = config as { http2?: boolean }
  const known = common.get(http2)
  if (known === undefined) {
    const started = startGateway(files)
    common.set(http2, started)
    endAfterAll(async () => void (await (await started).end()))
    return started
  }
  const gateway = await known
  await gateway.become(files)
  return gateway
}

async function pairOf(audit: () => AuditRecord[], requestId: string): Promise<[AuditRecord, AuditRecord]> {
  return until(() => {
    const records = audit().filter((record) => record.requestId === requestId)
    if (records.length > 2) throw new Error(`more than a pair for ${requestId}: ${JSON.stringify(records)}`)
    const [request, response] = records
    return request !== undefined && response !== undefined ? [request, response] : undefined
  })
}

/** Kills the process that writes the trail, because the test file would wait for the pipe of its log. */
function killWriter(records: readonly AuditRecord[]): void {
  const pid = records.findLast(({ type }) => type === 'AUDIT_START')?.pid
  try {
    process.kill(Number(pid), 'SIGKILL')
  } catch {
    // It has ended, or there is none.
  }
}

async function endOf(child: RunningProcess, signal: NodeJS.Signals): Promise<number | string> {
  const code = await child.end(signal)
  const hasFailed = signal === 'SIGTERM' && typeof code === 'number' && code !== 0
  const failed = child.lines.find(({ msg }) => msg === 'a stage failed')
  if (failed !== undefined) throw new Error(`a stage failed: ${JSON.stringify(failed)}`)
  if (hasFailed)
    throw new Error(`exit code ${code}: ${child.plain()}\n${JSON.stringify(child.lines.slice(-5))}`)
  return code
}

function sampleOf(exposition: string, sample: string): number {
  // A sample not yet exposed is 0; a misspelled metric would be 0 for ever.
  const name = sample.replace(/(_count|_sum|_bucket)?(\{.*)?$/s, '')
  if (!DOCUMENTED.includes(`\`${name}\``) && !DOCUMENTED.includes(`\`${name}{`))
    throw new Error(`docs/reference/metrics.md has no ${name}`)
  const line = exposition.split('\n').find((text) => text.startsWith(`${sample} `))
  return line === undefined ? 0 : Number(line.slice(sample.length + 1))
}

/** Calls `look` at growing intervals, because it costs CPU, until it gives a value. Rejects after `timeoutMs`. */
export async function until<T>(
  look: () => T | undefined | Promise<T | undefined>,
  timeoutMs = 60_000,
): Promise<T> {
  const deadline = performance.now() + timeoutMs
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.25, LONGEST_PAUSE_MS)) {
    const found = await look()
    if (found !== undefined) return found
    if (performance.now() > deadline) throw new Error(`nothing came of ${look}`)
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}
