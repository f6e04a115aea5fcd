import { parseCheckedJson } from '../../edge/bodies/checked-json.ts'
import type { Field } from '../../edge/syntax/field.ts'
import { createSender } from '../../outgoing/sender.ts'

const TIMEOUT_MS = 5_000
const MAX_DOCUMENT_BYTES = 256 * 1024

/** Fetches a JWK Set (RFC 7517 section 5). @param proof identifies the gateway to its own upstream */
export function fetchJwks(uri: string, signal: AbortSignal, proof?: Field): Promise<unknown> {
  const accept = 'application/jwk-set+json, application/json'
  return fetchJson(uri, signal, { accept, ...(proof && { [proof.name]: proof.value }) })
}

/** Fetches JSON of any media type. Redirects are not followed. @throws Error */
export async function fetchJson(
  uri: string,
  signal: AbortSignal,
  headers: Readonly<Record<string, string>> = { accept: 'application/json' },
): Promise<unknown> {
  const send = createSender({ url: uri, timeoutMs: TIMEOUT_MS, maxResponseBytes: MAX_DOCUMENT_BYTES })
  const { statusCode, body } = await send({ method: 'GET', headers, signal })
  if (statusCode !== 200) throw new Error(`the response has status ${statusCode}, not 200`)
  const json = parseCheckedJson(body)
  if ('fault' in json) throw new Error(`the response ${json.fault}`)
  return json.value
}
