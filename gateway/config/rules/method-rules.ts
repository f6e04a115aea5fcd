import { KNOWN_METHODS } from '../../edge/syntax/status-codes.ts'
import { didYouMean } from '../json/did-you-mean.ts'

/** CONNECT asks for a tunnel, TRACE for an echo of credentials. */
const REFUSED = new Set(['CONNECT', 'TRACE'])
const ADMITTED = new Set([...KNOWN_METHODS].filter((method) => !REFUSED.has(method)))

/** Letter case counts (RFC 9110 section 9.1). */
export function methodFault(method: string): string | undefined {
  if (ADMITTED.has(method)) return undefined
  if (REFUSED.has(method)) return `must not be "${method}": the gateway refuses it always`
  return `must be a known method of HTTP, in capitals, but is ${JSON.stringify(method)}${didYouMean(method, ADMITTED)}`
}

/** Adds HEAD to GET (RFC 9110 section 9.3.2). */
export function methodSet(methods: readonly string[] | undefined): ReadonlySet<string> | undefined {
  if (methods === undefined) return undefined
  return new Set(methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])))
}

/** True when a request can have a method of both sets; undefined is every method. */
export function methodsMeet(
  one: ReadonlySet<string> | undefined,
  other: ReadonlySet<string> | undefined,
): boolean {
  return one === undefined || other === undefined || [...one].some((method) => other.has(method))
}
