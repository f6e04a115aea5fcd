import { extensionOf } from '../../asn1/certificate.ts'
import { type Der, expectTag, membersIn, oidOf, TAG } from '../../asn1/der.ts'

const QC_STATEMENTS = '1.3.6.1.5.5.7.1.3'
const PSD2 = '0.4.0.19495.2'
/** Roles (ETSI TS 119 495 V1.8.1) by the content of their object identifiers: 0.4.0.19495.1 and a number. */
const ROLES: ReadonlyMap<string, string> = new Map([
  ['04008198270101', 'PSP_AS'],
  ['04008198270102', 'PSP_PI'],
  ['04008198270103', 'PSP_AI'],
  ['04008198270104', 'PSP_IC'],
  ['04008198270105', 'PSP_CB'],
  ['04008198270106', 'PSP_PA'],
  ['04008198270133', 'VOP_RS'],
  ['04008198270134', 'VOP_VS'],
])
/** nCAName and nCAId, name and id of the competent authority, have at most 256 characters. */
const MAX_TEXT_BYTES = 4 * 256

/** Reads the known roles (ETSI TS 119 495 section 5.1). A text says why there are none. Never throws. */
export function psd2RolesOf(certificate: { readonly raw: Buffer }): readonly string[] | string {
  try {
    const statements = extensionOf(certificate, QC_STATEMENTS)
    const found = (statements === undefined ? [] : membersIn(statements, TAG.sequence))
      .map((statement) => membersIn(statement, TAG.sequence))
      .filter(([id]) => oidOf(id) === PSD2)
    const [statement = [], ...more] = found
    if (statement.length === 0) return 'it has no PSD2 statement'
    if (more.length > 0) return 'it has several PSD2 statements'
    return rolesIn(membersIn(statement[1], TAG.sequence))
  } catch (error) {
    return `its statements are not well-formed: ${(error as Error).message}`
  }
}

function rolesIn([roles, ...authority]: readonly Der[]): readonly string[] {
  if (authority.length !== 2) throw new Error('the competent authority has no name and id')
  for (const text of authority) {
    const { length } = expectTag(text, TAG.utf8)
    if (length === 0 || length > MAX_TEXT_BYTES) throw new Error('a text is empty or too long')
  }
  const found = new Set<string>()
  for (const [oid, name] of pairsIn(roles)) {
    const role = ROLES.get(expectTag(oid, TAG.oid).hex)
    const written = expectTag(name, TAG.utf8).content.toString('latin1')
    if (role === undefined) continue
    if (written !== role) throw new Error(`the role ${role} has another name`)
    found.add(role)
  }
  return [...found]
}

/** Pairs of identifier and name. Each role is a sequence; older profiles have all roles in one sequence. */
function pairsIn(roles: Der | undefined): readonly (readonly Der[])[] {
  const parts = membersIn(roles, TAG.sequence).map((part) => membersIn(part, TAG.sequence))
  if (parts.length === 0 || parts.some(({ length }) => length === 0 || length % 2 === 1))
    throw new Error('a role has no identifier and name')
  return parts.flatMap((part) => part.flatMap((_, at) => (at % 2 === 0 ? [part.slice(at, at + 2)] : [])))
}
