import { randomBytes } from 'node:crypto'
import { existsSync, linkSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

type Environment = Readonly<Record<string, string | undefined>>

const NAME = 'upstream-secret'
const BYTES = 32

/**
 * For `npm start`: the two variables by which gateway and backend find the secret between them. The one that the
 * operator set counts for both; when none is set, a secret is made once in the data directory.
 */
export function sharedSecret(env: Environment): {
  readonly GATEWAY_UPSTREAM_SECRET_FILE: string
  readonly BACKEND_GATEWAY_SECRET_FILE: string
} {
  const { GATEWAY_UPSTREAM_SECRET_FILE: gateway, BACKEND_GATEWAY_SECRET_FILE: backend } = env
  const file = gateway || backend || madeOnce(join(env.GATEWAY_DATA_DIR || 'data', NAME))
  return { GATEWAY_UPSTREAM_SECRET_FILE: gateway || file, BACKEND_GATEWAY_SECRET_FILE: backend || file }
}

/** The file is there whole or not at all, and of two that make it at the same time the first one counts. */
function madeOnce(file: string): string {
  if (existsSync(file)) return file
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const draft = `${file}.${process.pid}`
  writeFileSync(draft, `${randomBytes(BYTES).toString('base64url')}\n`, { mode: 0o600, flush: true })
  try {
    linkSync(draft, file)
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== 'EEXIST') throw fault
  } finally {
    rmSync(draft)
  }
  return file
}
