import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { der, derInteger, derOid, TAG } from '../../asn1/der.ts'
import { LONGER } from '../../e2e/long-runs.ts'
import { makeCertificate } from '../demo/throw-away-ca.ts'
import { organizationIdentifierOf } from './certificate-names.ts'
import { psd2RolesOf } from './psd2-roles.ts'
import {
  psd2Statement,
  QC_STATEMENTS,
  qcStatements,
  qwacExtensions,
  ROLE_NUMBERS,
  type Role,
  roleOid,
  rolesOf,
  sequence,
  utf8,
} from './psd2-statement.test-support.ts'

const ALL = Object.keys(ROLE_NUMBERS) as Role[]
const FAULT =
  /^(?:it has (?:no PSD2 statement|several PSD2 statements)|its statements are not well-formed: (?:not DER|not the DER that was expected|the competent authority|a text is|the role|a role has|the extension).*)$/s

/** The frame of a certificate around an extension. */
function framed(...extensions: readonly Buffer[]): { readonly raw: Buffer } {
  const one = (value: Buffer) => sequence(derOid(QC_STATEMENTS), der(TAG.octets, value))
  const empty = sequence()
  const all = der(TAG.explicit3, sequence(...extensions.map(one)))
  const signed = sequence(derInteger(Buffer.from([7])), empty, empty, empty, empty, empty, all)
  return { raw: sequence(signed, empty, empty) }
}

async function read(extensions: Readonly<Record<string, Buffer>>, subject = 'CN=tpp') {
  const { certPem } = await makeCertificate({ subject, extensions })
  return new X509Certificate(certPem)
}

describe('the PSD2 statement of a certificate', () => {
  it('gives its roles, in either encoding, those of version 1.8.1 too', async () => {
    for (const form of ['nested', 'flat'] as const) {
      assert.deepEqual(psd2RolesOf(await read(qwacExtensions(ALL, form))), ALL)
      assert.deepEqual(psd2RolesOf(await read(qwacExtensions(['PSP_AI'], form))), ['PSP_AI'])
    }
  })

  it('is read from the examples of both encodings in apple/eidas#24', () => {
    const nested =
      '306e3013060604008e4601063009060704008e4601060330570606040081982702304d302630110607040081982701020c065053505f504930110607040081982701030c065053505f41490c1b46696e616e6369616c20436f6e6475637420417574686f726974790c0647422d464341'
    const flat =
      '306c3013060604008e4601063009060704008e4601060330550606040081982702304b302430220607040081982701020c065053505f50490607040081982701030c065053505f41490c1b46696e616e6369616c20436f6e6475637420417574686f726974790c0647422d464341'
    const roles = ['PSP_PI', 'PSP_AI']
    assert.deepEqual(psd2RolesOf(framed(Buffer.from(nested, 'hex'))), roles)
    const found = psd2RolesOf(framed(Buffer.from(flat, 'hex')))
    assert.deepEqual(found, roles)
  })

  it('gives no unknown role, not the unspecified role, and no role twice', () => {
    const pairs = [
      [0, 'Unspecified'],
      [3, 'PSP_AI'],
      [7, 'PSP_AS'],
      [3, 'PSP_AI'],
    ] as const
    assert.deepEqual(psd2RolesOf(framed(qcStatements(psd2Statement(rolesOf('nested', pairs))))), ['PSP_AI'])
    const none = psd2Statement(rolesOf('flat', [[0, 'Unspecified']]), [utf8('NA'), utf8('NA')])
    assert.deepEqual(psd2RolesOf(framed(qcStatements(none))), [])
  })

  it('that is missing, doubled or malformed gives no role, but a reason that says so', async () => {
    const good = psd2Statement(rolesOf('nested', [[3, 'PSP_AI']]))
    const statement = (roles: Buffer, ...authority: Buffer[]) =>
      framed(qcStatements(psd2Statement(roles, authority)))
    const pair = [roleOid(3), utf8('PSP_AI')]
    const authority = [utf8('BaFin'), utf8('DE-BAFIN')]
    const cases: readonly (readonly [{ readonly raw: Buffer }, RegExp])[] = [
      [await read({}), /^it has no PSD2 statement$/],
      [framed(qcStatements()), /^it has no PSD2 statement$/],
      [framed(qcStatements(good, good)), /^it has several PSD2 statements$/],
      [framed(qcStatements(good), qcStatements(good)), /the extension .* is there twice$/],
      [framed(qcStatements(sequence(derOid('0.4.0.19495.2')))), /nothing where 48 belongs$/],
      [statement(sequence(), ...authority), /a role has no identifier and name$/],
      [statement(sequence(sequence()), ...authority), /a role has no identifier and name$/],
      [statement(sequence(sequence(...pair, roleOid(2))), ...authority), /has no identifier and name$/],
      [statement(sequence(...pair), ...authority), /6 where 48 belongs$/],
      [statement(sequence(sequence(...pair), ...pair), ...authority), /6 where 48 belongs$/],
      [statement(sequence(sequence(...pair.toReversed())), ...authority), /12 where 6 belongs$/],
      [statement(rolesOf('nested', [[2, 'PSP_AI']]), ...authority), /the role PSP_PI has another name$/],
      [statement(rolesOf('flat', [[3, 'psp_ai']]), ...authority), /the role PSP_AI has another name$/],
      [statement(rolesOf('flat', [[3, 'PSP_AI']])), /the competent authority has no name and id$/],
      [statement(rolesOf('flat', [[3, 'PSP_AI']]), ...authority, utf8('x')), /has no name and id$/],
      [statement(rolesOf('flat', [[3, 'PSP_AI']]), utf8(''), utf8('x')), /is empty or too long$/],
      [statement(rolesOf('flat', [[3, 'PSP_AI']]), utf8('x'.repeat(2000)), utf8('x')), /or too long$/],
      [framed(Buffer.from('30', 'hex')), /not DER: cut off$/],
    ]
    for (const [certificate, reason] of cases) {
      const found = psd2RolesOf(certificate)
      assert.ok(typeof found === 'string', String(reason))
      assert.match(found, reason)
      assert.match(found, FAULT)
    }
  })

  it('never gives more roles when its bytes are changed, removed or added, and fails only with a reason', () => {
    const change = fc.record({
      at: fc.nat(),
      remove: fc.integer({ min: 0, max: 8 }),
      insert: fc.uint8Array({ maxLength: 2 }),
    })
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.constantFrom(...ALL), { minLength: 1 }),
        fc.constantFrom('nested' as const, 'flat' as const),
        fc.array(change, { minLength: 1, maxLength: 3 }),
        (roles, form, changes) => {
          let value = qwacExtensions(roles, form)[QC_STATEMENTS] as Buffer
          for (const { at, remove, insert } of changes) {
            const from = at % (value.length + 1)
            value = Buffer.concat([value.subarray(0, from), insert, value.subarray(from + remove)])
          }
          const found = psd2RolesOf(framed(value))
          if (typeof found === 'string') assert.match(found, FAULT)
          else for (const role of found) assert.ok(roles.includes(role as Role), `${role} of ${roles}`)
        },
      ),
      { numRuns: 3000 * LONGER },
    )
  })

  it('fails only with a reason, whatever its bytes or those of the certificate are', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        for (const certificate of [framed(Buffer.from(bytes)), { raw: Buffer.from(bytes) }]) {
          const found = psd2RolesOf(certificate)
          assert.match(String(found), FAULT)
        }
      }),
      { numRuns: 1000 * LONGER },
    )
  })
})

describe('the organizationIdentifier of a certificate', () => {
  it('is read from the subject, whatever else stands there', async () => {
    const named = async (subject: string) => organizationIdentifierOf(await read({}, subject))
    assert.equal(await named('CN=tpp,2.5.4.97=PSDDE-BAFIN-123456,L=Berlin,C=DE'), 'PSDDE-BAFIN-123456')
    assert.equal(await named('2.5.4.97=PSDGB-FCA-1+CN=tpp,C=GB'), 'PSDGB-FCA-1')
    assert.equal(await named('CN=2.5.4.97\\=PSDGB-FCA-1,O=organizationIdentifier\\=PSDGB-FCA-1'), undefined)
    assert.equal(await named('CN=x\\0AorganizationIdentifier\\=PSDGB-FCA-1'), undefined)
    assert.equal(await named(''), undefined)
  })

  it('is none when there are two', async () => {
    const two = await read({}, '2.5.4.97=PSDDE-BAFIN-1,2.5.4.97=PSDDE-BAFIN-2')
    assert.equal(organizationIdentifierOf(two), undefined)
  })
})
