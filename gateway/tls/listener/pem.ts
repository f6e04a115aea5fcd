/** One block of a PEM file (RFC 7468). */
export interface PemBlock {
  /** `CERTIFICATE`, `PRIVATE KEY`, `X509 CRL` … */
  readonly label: string
  /** The block itself, from its BEGIN to its END line. */
  readonly text: string
  readonly der: Buffer
}

const BLOCK = /^-----BEGIN ([A-Z0-9 ]+)-----[ \t]*$((?:(?!-----)[\s\S])*)^-----END \1-----[ \t]*$/gm
const BEGIN = /^-----BEGIN /gm
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/**
 * The blocks of a PEM file in order. Text between them is ignored (RFC 7468 section 2). An encrypted key of the old kind
 * (with header lines inside) gets an empty `der`.
 *
 * @returns the blocks, or what is wrong with the file
 */
export function readPem(file: string): readonly PemBlock[] | string {
  const text = file.replaceAll('\r\n', '\n')
  const blocks: PemBlock[] = []
  for (const [whole, label = '', body = ''] of text.matchAll(BLOCK)) {
    const base64 = body.replace(/\s+/g, '')
    const der = body.includes(':') ? Buffer.alloc(0) : Buffer.from(base64, 'base64')
    if (!body.includes(':') && !BASE64.test(base64)) return `block ${blocks.length + 1} is not base64`
    blocks.push({ label, text: `${whole}\n`, der })
  }
  const begun = text.match(BEGIN)?.length ?? 0
  if (begun === 0) return 'is not PEM: it has no line -----BEGIN …-----'
  if (begun > blocks.length)
    return `has ${begun} BEGIN lines, but only ${blocks.length} whole blocks: it is cut off`
  return blocks
}
