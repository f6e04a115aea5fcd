import type { Parsed } from './faults.ts'

/** Long enough that nobody guesses it, and made of what a field value may hold without a doubt. */
const SECRET = /^[\x21-\x7e]{32,256}$/

/** Reads the file of the upstream secret: one line, perhaps with a line end after it. The fault never says what it holds. */
export function parseUpstreamSecret(file: string, text: string): Parsed<string> {
  const secret = text.replace(/\r?\n$/, '')
  if (SECRET.test(secret)) return { value: secret }
  const reason = 'must hold one line of 32 to 256 visible ASCII characters, the secret of gateway and service'
  return { faults: [{ file, path: '$', reason }] }
}
