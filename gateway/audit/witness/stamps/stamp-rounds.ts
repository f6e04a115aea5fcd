import { hash, randomBytes, type X509Certificate } from 'node:crypto'
import { der, derInteger, derOid, TAG } from '../../../asn1/der.ts'
import { SHA_256 } from '../../../asn1/signature-algorithm.ts'
import type { Send } from '../../../outgoing/sender.ts'
import { PacedRounds, type PacedRoundsOptions } from '../paced-rounds.ts'
import { keepStamp, lastStamped, stampsDirectory } from './stamp-files.ts'
import { checkStamp } from './stamp-response.ts'

interface StampRoundsOptions extends PacedRoundsOptions {
  readonly send: Send
  readonly authorities: readonly X509Certificate[]
  readonly policy: string | undefined
  readonly reports: PacedRoundsOptions['reports'] & { fault(cause: string): void }
}

const NONCE_BYTES = 16
const HEADERS = { 'content-type': 'application/timestamp-query' }

/** Has checkpoints time-stamped (RFC 3161), and keeps them with their stamps. */
export class StampRounds extends PacedRounds {
  readonly #options: StampRoundsOptions

  constructor(options: StampRoundsOptions) {
    super(options, lastStamped(stampsDirectory(options.directory)))
    this.#options = options
  }

  protected async round(): Promise<boolean> {
    const { directory, reports } = this.#options
    try {
      const { bytes, checkpoint } = this.newest()
      const response = await this.#request(bytes)
      keepStamp(stampsDirectory(directory), checkpoint.size, bytes, response)
      this.attested()
      return true
    } catch (error) {
      if (!this.aborted.signal.aborted) reports.fault((error as Error).message)
      return false
    }
  }

  async #request(checkpoint: Buffer): Promise<Buffer> {
    const { send, authorities, policy } = this.#options
    const digest = hash('sha256', checkpoint, 'buffer')
    const nonce = randomBytes(NONCE_BYTES)
    const { statusCode, body } = await send({
      method: 'POST',
      headers: HEADERS,
      body: stampRequest(digest, nonce, policy),
      signal: this.aborted.signal,
    })
    if (statusCode !== 200) throw new Error(`the authority responds with status ${statusCode}`)
    checkStamp(body, { hash: digest, nonce, authorities, ...(policy !== undefined && { policy }) })
    return body
  }
}

/**
 * A TimeStampReq (RFC 3161 section 2.4.1) that asks for the certificate too.
 * @param policy an object identifier in dotted decimals
 */
export function stampRequest(hash: Uint8Array, nonce: Uint8Array, policy: string | undefined): Buffer {
  return der(
    TAG.sequence,
    derInteger(Buffer.from([1])),
    der(TAG.sequence, der(TAG.sequence, derOid(SHA_256), der(TAG.null)), der(TAG.octets, hash)),
    ...(policy === undefined ? [] : [derOid(policy)]),
    derInteger(nonce),
    der(TAG.boolean, Buffer.from([0xff])),
  )
}
