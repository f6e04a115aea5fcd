import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'

/** The backend's program. `npm test` bundles it into one file, which costs a third less to start. */
const MAIN = process.env.TEST_BACKEND || fileURLToPath(new URL('../main.ts', import.meta.url))

export interface BackendProcess {
  readonly child: ChildProcess
  /** Its log so far, one object a line. */
  readonly log: Record<string, unknown>[]
  /** Its URL, once it listens; rejects when the process ends first. */
  readonly listening: Promise<string>
  readonly ended: Promise<number | string | null>
}

/** Starts `node backend/main.ts` on a free port, with only these variables. */
export function startBackendProcess(
  variables: Record<string, string>,
  options: { readonly ipc?: boolean } = {},
): BackendProcess {
  const { PATH, TEST_RUN_DIR } = process.env
  // Code compiled here is kept for other tests, also while the gateway's coverage is measured.
  const NODE_COMPILE_CACHE =
    process.env.NODE_COMPILE_CACHE ?? (TEST_RUN_DIR && join(TEST_RUN_DIR, 'compiled'))
  const child = spawn(process.execPath, [MAIN], {
    env: {
      PATH,
      NODE_V8_COVERAGE: '',
      ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }),
      BACKEND_PORT: '0',
      ...variables,
    },
    stdio: ['ignore', 'ignore', 'pipe', ...(options.ipc ? (['ipc'] as const) : [])],
  }) as ChildProcess & { stderr: Readable }
  const log: Record<string, unknown>[] = []
  const { promise: listening, resolve, reject } = Promise.withResolvers<string>()
  let pending = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (pending + chunk).split('\n')
    pending = lines.pop() ?? ''
    for (const line of lines) {
      const entry = line.startsWith('{') ? JSON.parse(line) : { msg: line }
      log.push(entry)
      const url = /^listening at (\S+)$/.exec(entry.msg)?.[1]
      if (url !== undefined) resolve(url)
    }
  })
  // The event "close" never comes after the parent has disconnected the channel.
  const ended = Promise.all([once(child, 'exit'), once(child.stderr, 'close')]).then(([[code, signal]]) => {
    reject(new Error(`ended before it listened: ${JSON.stringify(log)}`))
    return (code ?? signal) as number | string | null
  })
  listening.catch(() => {})
  return { child, log, listening, ended }
}
