import { hash, timingSafeEqual } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Problem } from './problems.ts'
import type { App } from './services.ts'

/** The form of the secret. The gateway's file must have the same form. */
const SECRET = /^[\x21-\x7e]{32,256}$/
const OPEN_TO_ALL: ReadonlySet<string> = new Set(['/healthz', '/readyz'])

/** Reads the gateway's secret. Errors name the file, not its content. */
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

/** Refuses requests without the secret, before other headers are trusted. */
export function requireGateway(app: App, secret: string): void {
  const expected = digest(secret)
  app.addHook('onRequest', async ({ headers, routeOptions }) => {
    if (OPEN_TO_ALL.has(routeOptions.url ?? '')) return
    const given = headers['x-gateway-secret']
    // timingSafeEqual needs equal lengths.
    if (typeof given !== 'string' || !timingSafeEqual(digest(given), expected)) {
      throw new Problem('gateway_required')
    }
  })
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
