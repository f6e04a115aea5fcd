import { randomBytes } from 'node:crypto'
import { existsSync, linkSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

type Environment = Readonly<Record<string, string | undefined>>

const NAME = 'upstream-secret'
const BYTES = 32

/**
 * For `npm start`: the variables that name the file of the secret which gateway and backend share. A variable that the
 * operator set counts for both. If neither is set, a secret is created in the data directory at the first start.
 */
export function sharedSecret(env: Environment): {
  readonly GATEWAY_UPSTREAM_SECRET_FILE: string
  readonly BACKEND_GATEWAY_SECRET_FILE: string
} {
  const { GATEWAY_UPSTREAM_SECRET_FILE: gateway, BACKEND_GATEWAY_SECRET_FILE: backend } = env
  const file = gateway || backend || existingOrNew(join(env.GATEWAY_DATA_DIR || 'data', NAME))
  return { GATEWAY_UPSTREAM_SECRET_FILE: gateway || file, BACKEND_GATEWAY_SECRET_FILE: backend || file }
}

/** Creates the file at once with its content. If two processes do so at the same time, the first one's file stays. */
function existingOrNew(file: string): string {
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
