import { join } from 'node:path'
import { existingOrNew } from '../../storage/secret-file.ts'

type Environment = Readonly<Record<string, string | undefined>>

const NAME = 'upstream-secret'

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
