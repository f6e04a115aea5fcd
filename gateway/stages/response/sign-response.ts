import { RESPONSE_SIGNERS } from '../../auth/signatures/signature-forms.ts'
import type { WaitingBody } from '../../edge/bodies/body-room.ts'
import { networkOf } from '../../edge/rules/network.ts'
import { originForm } from '../../edge/rules/request-target.ts'
import type { FilteredHead } from '../../edge/rules/response-headers.ts'
import { isBodiless } from '../../edge/syntax/status-codes.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { requestsOf } from '../credentials/prove-signature.ts'

/** Limit for a signed body. The signature precedes the body, so a longer body is passed on unsigned. */
const MAX_BYTES = 1024 * 1024

/** @param body as it is transferred */
export function signResponse(
  gateway: Gateway,
  exchange: Exchange,
  { status, head, body }: { readonly status: number; readonly head: FilteredHead; readonly body: Buffer },
): FilteredHead {
  const { signer } = gateway
  const { route, req } = exchange
  if (signer === undefined || route?.signsResponses !== true) return head
  const { method, target, fields } = req
  const client = gateway.signers.of(exchange.principal?.client)
  const signed = RESPONSE_SIGNERS[client?.profile.form ?? 'rfc-9421'](signer, {
    status,
    body: isBodiless(req.method, status) ? undefined : body,
    requestId: exchange.requestId,
    request: { method, target, fields, publicUrl: publicUrlOf(gateway, exchange) },
    nowMs: gateway.clock(),
  })
  if (signed === undefined) {
    countUnsigned(gateway, exchange)
    return head
  }
  const { lines, signature } = signed
  exchange.responseSignature = signature && { signature, key: signer.publicKey }
  return { ...head, lines: head.lines + lines }
}

/** The client's URL up to the target, as far as it is known. */
function publicUrlOf(gateway: Gateway, exchange: Exchange): string {
  const { signed, secure, req } = exchange
  if (signed !== undefined) return signed.signature.publicUrl
  const host = exchange.host.toLowerCase()
  const { length } = originForm(req.target)
  const urls = requestsOf(gateway, exchange).map(({ uri }) => uri.slice(0, -length))
  const scheme = secure === undefined ? 'http' : 'https'
  return urls.find((url) => url.split('/', 3)[2] === host) ?? urls[0] ?? `${scheme}://${host}`
}

/** A response that is held until it is whole, to be signed. */
export class HeldResponse {
  readonly head: FilteredHead
  readonly #gateway: Gateway
  readonly #room: WaitingBody
  readonly #pieces: Buffer[] = []

  constructor(gateway: Gateway, exchange: Exchange, head: FilteredHead) {
    const { address, principal, res } = exchange
    const room = { keyId: principal?.key ?? address, network: networkOf(address), bytes: 0 }
    this.head = head
    this.#gateway = gateway
    this.#room = room
    res.onClose(() => gateway.load.bodyRoom.release(room))
  }

  get body(): Buffer {
    return Buffer.concat(this.#pieces)
  }

  /** @param piece may change afterwards. @returns false when the body is too long or finds no room */
  add(piece: Buffer): boolean {
    const fits =
      this.#room.bytes + piece.length <= MAX_BYTES &&
      this.#gateway.load.bodyRoom.take(this.#room, piece.length)
    if (fits) this.#pieces.push(Buffer.from(piece))
    return fits
  }
}

/** Undefined for a response that is sent as it comes. */
export function holdResponse(
  gateway: Gateway,
  exchange: Exchange,
  head: FilteredHead,
  bodiless: boolean,
): HeldResponse | undefined {
  const { route, grpcStatus } = exchange
  if (route?.signsResponses !== true || grpcStatus !== undefined) return undefined
  if (bodiless || (head.contentLength ?? 0) <= MAX_BYTES) return new HeldResponse(gateway, exchange, head)
  countUnsigned(gateway, exchange)
  return undefined
}

export function countUnsigned({ metrics }: Gateway, { route }: Exchange): void {
  metrics.gateway_responses_unsigned_total.count(route?.path ?? '')
}
