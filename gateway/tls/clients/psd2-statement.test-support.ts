import { der, derOid, TAG } from '../../asn1/der.ts'

export const QC_STATEMENTS = '1.3.6.1.5.5.7.1.3'
/** The roles of ETSI TS 119 495 V1.8.1, by the last number of their object identifiers. */
export const ROLE_NUMBERS = {
  PSP_AS: 1,
  PSP_PI: 2,
  PSP_AI: 3,
  PSP_IC: 4,
  PSP_CB: 5,
  PSP_PA: 6,
  VOP_RS: 51,
  VOP_VS: 52,
} as const
export type Role = keyof typeof ROLE_NUMBERS
/** How the roles are encoded: each in a sequence of its own, or all together in one. */
type RoleForm = 'nested' | 'flat'

export const sequence = (...content: readonly Buffer[]) => der(TAG.sequence, ...content)
export const utf8 = (text: string) => der(TAG.utf8, Buffer.from(text))
export const roleOid = (number: number) => derOid(`0.4.0.19495.1.${number}`)

/** Encodes RolesOfPSP. Each pair has the number and the name of a role. */
export function rolesOf(form: RoleForm, pairs: readonly (readonly [number: number, name: string])[]): Buffer {
  const roles = pairs.map(([number, name]) => [roleOid(number), utf8(name)])
  return sequence(...(form === 'nested' ? roles : [roles.flat()]).map((role) => sequence(...role)))
}

/** A statement with the given roles, then the name and id of the authority. */
export function psd2Statement(roles: Buffer, authority = [utf8('BaFin'), utf8('DE-BAFIN')]): Buffer {
  return sequence(derOid('0.4.0.19495.2'), sequence(roles, ...authority))
}

/** The extension of a QWAC: QcCompliance, QcType web, then the PSD2 statement. */
export function qcStatements(...psd2: readonly Buffer[]): Buffer {
  const web = sequence(derOid('0.4.0.1862.1.6'), sequence(derOid('0.4.0.1862.1.6.3')))
  return sequence(sequence(derOid('0.4.0.1862.1.1')), web, ...psd2)
}

export function qwacExtensions(roles: readonly Role[], form: RoleForm = 'nested') {
  const pairs = roles.map((role) => [ROLE_NUMBERS[role], role] as const)
  return { [QC_STATEMENTS]: qcStatements(psd2Statement(rolesOf(form, pairs))) }
}
