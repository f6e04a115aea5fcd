export interface PemBlock {
  /** `CERTIFICATE`, `PRIVATE KEY`, `X509 CRL` … */
  readonly label: string
  /** With its BEGIN and END lines. */
  readonly text: string
  readonly der: Buffer
}

const BEGIN = /^-----BEGIN ([A-Z0-9 ]+)-----[ \t]*$/
const NOT_BASE64 = /[^A-Za-z0-9+/]/

/**
 * Reads the blocks of a PEM file (RFC 7468). A text says what is wrong with the file. An encrypted key with PEM headers
 * (RFC 1421) gets an empty `der`.
 */
export function readPem(file: string): readonly PemBlock[] | string {
  const lines = file.replaceAll('\r\n', '\n').split('\n')
  const blocks: PemBlock[] = []
  let begun = 0
  let open: { readonly label: string; readonly at: number } | undefined
  // Read line by line, because a long revocation list would overflow the stack of a regular expression.
  for (const [at, line] of lines.entries()) {
    if (!line.includes('-----')) continue
    if (line.startsWith('-----BEGIN ')) begun += 1
    if (open !== undefined && line.trimEnd() === `-----END ${open.label}-----`) {
      const block = blockOf(open.label, lines.slice(open.at, at + 1))
      if (block === undefined) return `block ${blocks.length + 1} is not base64`
      blocks.push(block)
    }
    const label = BEGIN.exec(line)?.[1]
    open = label === undefined ? undefined : { label, at }
  }
  if (begun === 0) return 'is not PEM: it has no line -----BEGIN …-----'
  if (begun > blocks.length)
    return `has ${begun} BEGIN lines, but only ${blocks.length} whole blocks: it is cut off`
  return blocks
}

/** Undefined when the block is not base64. */
function blockOf(label: string, lines: readonly string[]): PemBlock | undefined {
  const text = `${lines.join('\n')}\n`
  const body = lines.slice(1, -1)
  if (body.some((line) => line.includes(':'))) return { label, text, der: Buffer.alloc(0) }
  const base64 = body.join('').replace(/\s+/g, '')
  const padding = base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0
  const digits = base64.slice(0, base64.length - padding)
  if (digits === '' || NOT_BASE64.test(digits)) return undefined
  return { label, text, der: Buffer.from(base64, 'base64') }
}
