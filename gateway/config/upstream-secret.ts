import type { Parsed } from './faults.ts'

/** Too long to guess, and valid in a header field. */
const SECRET = /^[\x21-\x7e]{32,256}$/

/** Parses the file of the upstream secret: one line, which may end with a line end. The fault does not repeat it. */
export function parseUpstreamSecret(file: string, text: string): Parsed<string> {
  const secret = text.replace(/\r?\n$/, '')
  if (SECRET.test(secret)) return { value: secret }
  const reason = 'must hold one line of 32 to 256 visible ASCII characters, the secret of gateway and service'
  return { faults: [{ file, path: '$', reason }] }
}
