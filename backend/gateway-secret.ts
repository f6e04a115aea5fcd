import { createHash, timingSafeEqual } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Problem } from './problems.ts'
import type { App } from './services.ts'

/** Long enough that nobody guesses it; the gateway reads the file by the same rule. */
const SECRET = /^[\x21-\x7e]{32,256}$/
/** For the container's probes; they say nothing about anybody. */
const OPEN_TO_ALL: ReadonlySet<string> = new Set(['/healthz', '/readyz'])

/** Reads the secret that the gateway proves itself with. Throws an error that names the file and hides what it holds. */
export async function readGatewaySecret(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch((cause: Error) => {
    throw new Error(`BACKEND_GATEWAY_SECRET_FILE: ${file} cannot be read: ${cause.message}`, { cause })
  })
  const secret = text.replace(/\r?\n$/, '')
  if (SECRET.test(secret)) return secret
  throw new Error(
    `BACKEND_GATEWAY_SECRET_FILE: ${file} must hold one line of 32 to 256 visible ASCII characters`,
  )
}

/**
 * Refuses every request whose X-Gateway-Secret is not the secret, before anything else is looked at: who calls is read
 * from fields that only the gateway may set.
 */
export function requireGateway(app: App, secret: string): void {
  const expected = digest(secret)
  app.addHook('onRequest', async ({ headers, routeOptions }) => {
    if (OPEN_TO_ALL.has(routeOptions.url ?? '')) return
    const given = headers['x-gateway-secret']
    // Digests, because the comparison takes the same time for every text of the same length only.
    if (typeof given !== 'string' || !timingSafeEqual(digest(given), expected)) {
      throw new Problem('gateway_required')
    }
  })
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
