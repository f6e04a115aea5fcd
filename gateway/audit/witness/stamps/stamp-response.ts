import type { X509Certificate } from 'node:crypto'
import {
  type Der,
  derInteger,
  expectTag,
  membersIn,
  oidOf,
  readDer,
  TAG,
} from '../../../asn1/der-elements.ts'
import { SHA_256 } from '../../../asn1/signature-algorithm.ts'
import { verifySigned } from './stamp-signature.ts'

/** A time stamp whose signature and contents have been checked. */
interface Stamp {
  /** Milliseconds since the epoch. */
  readonly timeMs: number
  readonly policy: string
  /** Serial number of the stamp at its authority, hexadecimal. */
  readonly serial: string
}

export interface ExpectedStamp {
  /** SHA-256 of what was stamped. */
  readonly hash: Uint8Array
  /** Undefined: any, as when a kept stamp is verified. */
  readonly nonce?: Uint8Array
  /** Undefined: any. */
  readonly policy?: string
  /** Authorities that are trusted; a chain of certificates must lead to one. */
  readonly authorities: readonly X509Certificate[]
}

const STATUS = ['granted', 'granted with changes', 'rejection', 'waiting', 'revocation warning', 'revoked']
const SIGNED_DATA = '1.2.840.113549.1.7.2'
const TST_INFO = '1.2.840.113549.1.9.16.1.4'
const MAX_TEXT = 200

/**
 * Checks a TimeStampResp (RFC 3161 section 2.4.2, RFC 5816): granted, for this hash and nonce, signed by a certificate for
 * time-stamping alone that one of the authorities has issued. Neither revocation nor path constraints are looked at;
 * `openssl ts -verify` is for those.
 *
 * @throws Error that says what is wrong
 */
export function checkStamp(response: Buffer, expected: ExpectedStamp): Stamp {
  const [status, token] = membersIn(readDer(response), TAG.sequence)
  checkStatus(status)
  const [type, signed] = membersIn(token, TAG.sequence)
  if (oidOf(type) !== SIGNED_DATA) throw new Error('the time stamp is not signed data')
  const [signedData] = membersIn(signed, TAG.explicit0)
  const info = contentOf(signedData)
  const stamp = checkInfo(readDer(info), expected)
  verifySigned(membersIn(signedData, TAG.sequence), {
    content: info,
    contentType: TST_INFO,
    timeMs: stamp.timeMs,
    authorities: expected.authorities,
  })
  return stamp
}

function checkStatus(info: Der | undefined): void {
  const [code, texts] = membersIn(info, TAG.sequence)
  const { content } = expectTag(code, TAG.integer)
  const status = content.length === 1 ? (content[0] as number) : STATUS.length
  if (status <= 1) return
  const said = texts?.tag === TAG.sequence ? membersIn(texts, TAG.sequence) : []
  const text = said.map((one) => one.content.toString('utf8')).join(' ')
  const name = STATUS[status] ?? 'an unknown status'
  throw new Error(`the authority grants no time stamp: ${name} ${JSON.stringify(text.slice(0, MAX_TEXT))}`)
}

function contentOf(signedData: Der | undefined): Buffer {
  const [, , encapsulated] = membersIn(signedData, TAG.sequence)
  const [type, content] = membersIn(encapsulated, TAG.sequence)
  if (oidOf(type) !== TST_INFO) throw new Error('what is signed is not a time stamp')
  const [octets] = membersIn(content, TAG.explicit0)
  return expectTag(octets, TAG.octets).content
}

/** TSTInfo. */
function checkInfo(info: Der, { hash, nonce, policy }: ExpectedStamp): Stamp {
  const [, foundPolicy, imprint, serial, time, ...rest] = membersIn(info, TAG.sequence)
  const [algorithm, digest] = membersIn(imprint, TAG.sequence)
  const [algorithmName] = membersIn(algorithm, TAG.sequence)
  if (oidOf(algorithmName) !== SHA_256) throw new Error('the time stamp is not for a SHA-256')
  if (!expectTag(digest, TAG.octets).content.equals(hash))
    throw new Error('the time stamp is for another hash')
  const found = { policy: oidOf(foundPolicy), serial: expectTag(serial, TAG.integer).content.toString('hex') }
  if (policy !== undefined && found.policy !== policy) {
    throw new Error(`the time stamp has the policy ${found.policy}, not ${policy}`)
  }
  const foundNonce = rest.find(({ tag }) => tag === TAG.integer)
  if (nonce !== undefined && !foundNonce?.bytes.equals(derInteger(nonce))) {
    throw new Error('the time stamp is not for this request: its nonce differs')
  }
  return { ...found, timeMs: timeOf(expectTag(time, TAG.time).content.toString('latin1')) }
}

/** GeneralizedTime in UTC, with seconds. */
function timeOf(text: string): number {
  const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\.\d{1,9})?Z$/.exec(text)
  const [, year, month, day, hour, minute, second, fraction = ''] = parts ?? []
  const timeMs = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}${fraction.slice(0, 4)}Z`)
  if (Number.isNaN(timeMs)) throw new Error('the time stamp has a time that cannot be read')
  return timeMs
}
