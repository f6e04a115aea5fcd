import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../backend/testing/free-port.ts'
import { prepareBackendDirectory } from '../../backend/testing/prepared-directory.ts'
import { sharedSecret } from '../runtime/startup/shared-addresses.ts'
import type { RunningProcess } from '../testing/running-process.ts'
import { endAfterAll, run } from './child-process.ts'
import { startGateway, type TestGateway } from './running-gateway.ts'

const CONFIG = fileURLToPath(new URL('../../config/', import.meta.url))

interface ServiceOptions {
  /** Replaces keys of the shipped gateway.json. */
  readonly config?: object
  /** The shipped rows: all, all but those for logins and OAuth (default), or none. */
  readonly limits?: 'shipped' | 'logins-unlimited' | 'unlimited'
  /** Rows of clients.json; default: none. */
  readonly clients?: readonly object[]
  /** Variables of both processes. */
  readonly env?: Readonly<Record<string, string>>
}

/** The service as `npm start` runs it, with the shipped configuration. */
export interface TestService {
  readonly backend: RunningProcess
  readonly backendDir: string
  readonly gateway: TestGateway
  /** The issuer's URL, at which the gateway listens. */
  readonly url: string
  end(): Promise<void>
}

/** The webhook secret of {@link commonService}'s client `acme`. */
export const ACME_SECRET = `whsec_${Buffer.from('a webhook secret of 32 bytes, ok').toString('base64')}`
let common: Promise<TestService> | undefined

/** One service for all test files of a process, because it costs 3 s of CPU. Files may find changes of earlier ones. */
export function commonService(): Promise<TestService> {
  const hmac = { keyId: 'key_acme', secrets: [{ env: 'ACME_WEBHOOK_SECRET' }] }
  if (common === undefined) endAfterAll(async () => (await common)?.end())
  common ??= startService({
    limits: 'logins-unlimited',
    clients: [{ id: 'acme', hmac }],
    env: { ACME_WEBHOOK_SECRET: ACME_SECRET },
  })
  return common
}

export async function startService(options: ServiceOptions = {}): Promise<TestService> {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-service-'))
  const backendDir = join(dir, 'backend')
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const secret = sharedSecret({ GATEWAY_DATA_DIR: dir })
  await prepareBackendDirectory(backendDir)
  const backend = run('backend/main.ts', {
    ...secret,
    BACKEND_DATA_DIR: backendDir,
    BACKEND_PORT: '0',
    PUBLIC_URL: url,
    ...options.env,
  })
  const line = await backend.line(({ msg }) => msg?.startsWith('listening at ') === true)
  const { limits } = read<{ limits: { path: string }[] }>('limits.json')
  const starting = startGateway({
    config: { ...read<object>('gateway.json'), ...options.config },
    limits: limits.filter(({ path }) => isInForce(path, options.limits)),
    clients: options.clients ?? [],
    env: {
      ...secret,
      GATEWAY_UPSTREAM: String(line.msg).replace('listening at ', ''),
      GATEWAY_ISSUER: url,
      GATEWAY_PORT: String(port),
      ...options.env,
    },
  })
  const gateway = await starting.catch(async (fault: unknown) => {
    await backend.end('SIGKILL')
    throw fault
  })
  return {
    backend,
    backendDir,
    gateway,
    url,
    end: async () => {
      await gateway.end()
      await backend.end('SIGTERM')
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

function isInForce(path: string, which: ServiceOptions['limits']): boolean {
  if (which === 'unlimited') return false
  return which === 'shipped' || (path !== '/api/login' && path !== '/oauth/*')
}

function read<T>(name: string): T {
  return JSON.parse(readFileSync(join(CONFIG, name), 'utf8')) as T
}
