import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

export interface Configuration {
  /** The content of gateway.json, or the path of such a file. */
  readonly config?: object | string
  /** Rows of limits.json, or the path of such a file; no limits when left out. */
  readonly limits?: readonly object[] | string
  /** Clients of clients.json, or the path of such a file; none when left out. */
  readonly clients?: readonly object[] | string
}

/** Lets every request with an access token through. */
const ANY_BEARER = { routes: [{ path: '/*', auth: ['bearer'] }] }

/** Writes into `dir` what is not a file already. @returns the environment of a gateway that reads it */
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

/** The environment of a gateway that keeps everything in `dir`, on free ports, and does not seal its trail. */
export function placesIn(dir: string): Record<string, string> {
  return {
    GATEWAY_AUDIT_FILE: join(dir, 'audit.ndjson'),
    GATEWAY_AUDIT_SEALS: 'off',
    GATEWAY_DATA_DIR: join(dir, 'data'),
    GATEWAY_PORT: '0',
    GATEWAY_ADMIN_PORT: '0',
  }
}
