import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parse, stringify } from 'yaml'

export const FILES = fileURLToPath(new URL('../../config/prometheus/', import.meta.url))

/** Why tests are skipped; false where Prometheus is installed. */
export const NO_PROMETHEUS = ['prometheus', 'promtool'].every(
  (program) => spawnSync(program, ['--version']).status === 0,
)
  ? false
  : 'NOT TESTED: prometheus is not installed (apt-get install prometheus)'

export interface Sample {
  readonly metric: Readonly<Record<string, string>>
  readonly value: number
}

export interface RunningPrometheus {
  readonly url: string
  /** Samples of an instant query. @throws the server's complaint */
  query(expr: string): Promise<Sample[]>
  /** The data of a path below /api/v1/. */
  get(path: string): Promise<unknown>
  end(): Promise<void>
}

/**
 * Writes our rules, and our prometheus.yml with this target and token, without alertmanager. Prometheus scrapes and
 * evaluates rules each second. Returns the directory.
 */
export function adaptedConfig(target: string, tokenFile: string): string {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-prometheus-'))
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }))
  const config = parse(readFileSync(join(FILES, 'prometheus.yml'), 'utf8'))
  config.global = { scrape_interval: '1s', evaluation_interval: '1s' }
  delete config.alerting
  const [job] = config.scrape_configs
  job.authorization.credentials_file = tokenFile
  job.static_configs[0].targets = [target]
  writeFileSync(join(dir, 'prometheus.yml'), stringify(config))
  copyFileSync(join(FILES, 'countersign.rules.yml'), join(dir, 'countersign.rules.yml'))
  return dir
}

/** A real Prometheus on a free port. */
export async function startPrometheus(dir: string): Promise<RunningPrometheus> {
  const options = {
    'config.file': join(dir, 'prometheus.yml'),
    'storage.tsdb.path': join(dir, 'data'),
    'web.listen-address': '127.0.0.1:0',
    'log.format': 'json',
  }
  const args = Object.entries(options).map(([name, value]) => `--${name}=${value}`)
  const child = spawn('prometheus', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const kill = () => void child.kill('SIGKILL')
  process.on('exit', kill)
  const ended = once(child, 'exit').then(() => void process.off('exit', kill))
  const url = `http://${await addressOf(child.stderr)}`
  const get = async (path: string) => {
    const response = await fetch(`${url}/api/v1/${path}`)
    const { status, data, error } = (await response.json()) as Record<string, unknown>
    if (status !== 'success') throw new Error(`${path}: ${error}`)
    return data
  }
  return {
    url,
    get,
    query: async (expr) => {
      const { result } = (await get(`query?${new URLSearchParams({ query: expr })}`)) as {
        readonly result: readonly { readonly metric: Sample['metric']; readonly value: [number, string] }[]
      }
      return result.map(({ metric, value }) => ({ metric, value: Number(value[1]) }))
    },
    end: async () => {
      child.kill('SIGKILL')
      await ended
    },
  }
}

/** Returns Prometheus's address once it is ready. Goes on reading the log, so that Prometheus does not block. */
function addressOf(log: NodeJS.ReadableStream): Promise<string> {
  const found = Promise.withResolvers<string>()
  const lines: string[] = []
  let listening = ''
  createInterface({ input: log })
    .on('line', (line) => {
      lines.push(line)
      const { msg, address } = JSON.parse(line) as Record<string, string>
      if (msg === 'Listening on') listening = address ?? ''
      if (msg === 'Server is ready to receive web requests.') found.resolve(listening)
    })
    .on('close', () => found.reject(new Error(`Prometheus did not start:\n${lines.join('\n')}`)))
  return found.promise
}
