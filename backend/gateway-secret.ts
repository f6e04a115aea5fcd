import { hash, timingSafeEqual } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Problem } from './problems.ts'
import type { App } from './services.ts'

/** The form of the secret. The gateway requires the same form of its file. */
const SECRET = /^[\x21-\x7e]{32,256}$/
/** Paths for probes. */
const OPEN_TO_ALL: ReadonlySet<string> = new Set(['/healthz', '/readyz'])

/** Reads the secret by which the gateway proves itself. Throws an error that names the file, but not its content. */
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

/** Refuses every request whose X-Gateway-Secret is not the secret, before its other headers are trusted. */
export function requireGateway(app: App, secret: string): void {
  const expected = digest(secret)
  app.addHook('onRequest', async ({ headers, routeOptions }) => {
    if (OPEN_TO_ALL.has(routeOptions.url ?? '')) return
    const given = headers['x-gateway-secret']
    // Digests are compared, because timingSafeEqual needs equal lengths.
    if (typeof given !== 'string' || !timingSafeEqual(digest(given), expected)) {
      throw new Problem('gateway_required')
    }
  })
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
