import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

export interface Configuration {
  /** The content or path of gateway.json. */
  readonly config?: object | string
  /** Rows of limits.json or its path; default: none. */
  readonly limits?: readonly object[] | string
  /** Clients of clients.json or its path; default: none. */
  readonly clients?: readonly object[] | string
}

const ANY_BEARER = { routes: [{ path: '/*', auth: ['bearer'] }] }

/** Writes into `dir` what is not given as a path. Returns the environment of a gateway that reads it. */
export function writeConfiguration(
  dir: string,
  { config = ANY_BEARER, limits = [], clients = [] }: Configuration,
): Record<string, string> {
  const fileOf = (name: string, content: object | string) => {
    if (typeof content === 'string') return resolve(content)
    const file = join(dir, name)
    writeFileSync(file, JSON.stringify(content))
    return file
  }
  const listed = (key: string, rows: readonly object[] | string) =>
    typeof rows === 'string' ? rows : { [key]: rows }
  return {
    GATEWAY_CONFIG: fileOf('gateway.json', config),
    GATEWAY_LIMITS: fileOf('limits.json', listed('limits', limits)),
    GATEWAY_CLIENTS: fileOf('clients.json', listed('clients', clients)),
    ...placesIn(dir),
  }
}

/** Keeps all files of a gateway in `dir`, on free ports, without seals. */
export function placesIn(dir: string): Record<string, string> {
  return {
    GATEWAY_AUDIT_FILE: join(dir, 'audit.ndjson'),
    GATEWAY_AUDIT_SEALS: 'off',
    GATEWAY_DATA_DIR: join(dir, 'data'),
    GATEWAY_PORT: '0',
    GATEWAY_ADMIN_PORT: '0',
  }
}
