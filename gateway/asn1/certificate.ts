import { type Der, expectTag, membersIn, oidOf, readDer, TAG } from './der.ts'

interface Certificate {
  readonly raw: Buffer
}

/** Fields of a certificate (RFC 5280 section 4.1). @throws Error when it is no certificate */
export function fieldsOf({ raw }: Certificate) {
  const [signed] = readDer(raw).members()
  const members = membersIn(signed, TAG.sequence)
  const at = members[0]?.tag === TAG.explicit0 ? 1 : 0
  return {
    serial: expectTag(members[at], TAG.integer),
    issuer: expectTag(members[at + 2], TAG.sequence),
    subject: expectTag(members[at + 4], TAG.sequence),
    extensions: members.find(({ tag }) => tag === TAG.explicit3),
  }
}

/** @throws Error when the extension is there twice, or is not DER */
export function extensionOf(certificate: Certificate, oid: string): Der | undefined {
  const { extensions } = fieldsOf(certificate)
  if (extensions === undefined) return undefined
  const [value, ...more] = membersIn(extensions.members()[0], TAG.sequence)
    .map((extension) => membersIn(extension, TAG.sequence))
    .filter(([name]) => oidOf(name) === oid)
    .map((members) => readDer(expectTag(members.at(-1), TAG.octets).content))
  if (more.length > 0) throw new Error(`the extension ${oid} is there twice`)
  return value
}
