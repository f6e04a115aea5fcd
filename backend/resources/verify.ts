import { type Static, Type } from 'typebox'
import { v7 as uuid } from 'uuid'
import { requireUserWith } from '../caller.ts'
import { Problem, problemResponses } from '../problems.ts'
import type { App, Services } from '../services.ts'
import { expiryDay, isBirthDate, isInForce } from '../travel-document/dates.ts'
import { DOCUMENT_SIZES, type MachineReadableZone, readMrz } from '../travel-document/mrz.ts'
import { nameMatches } from '../travel-document/names.ts'
import { findUser } from '../user-store.ts'

const SIZES = DOCUMENT_SIZES.map(({ lines, characters }) => `${lines} lines of ${characters}`).join(', ')

/** Records are kept for five years after the business with the customer ends (Directive (EU) 2015/849, article 40). */
export const VERIFICATIONS_KEPT_MS = 5 * 366 * 24 * 60 * 60 * 1000

/** Three lines, the longest body, need about 110 bytes. */
const BODY_LIMIT_BYTES = 4096

const VerifyBody = Type.Object(
  {
    mrz: Type.Array(
      Type.String({
        pattern: '^[A-Z0-9<]{30,44}$',
        description: '30 to 44 characters, each of A-Z, 0-9 and <',
      }),
      {
        minItems: 2,
        maxItems: 3,
        anyOf: DOCUMENT_SIZES.map(({ lines, characters }) => ({
          minItems: lines,
          maxItems: lines,
          items: { pattern: `^[A-Z0-9<]{${characters}}$` },
        })),
        description: `the lines as printed: ${SIZES} characters`,
        examples: [
          ['P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<', 'L898902C36UTO7408122F1204159ZE184226B<<<<<10'],
        ],
      },
    ),
  },
  { additionalProperties: false },
)

const VerifyResponse = Type.Object(
  {
    verificationId: Type.String({ format: 'uuid' }),
    status: Type.Enum(['verified', 'rejected'], { description: 'verified when every check holds.' }),
    checks: Type.Object({
      format: Type.Boolean({ description: 'Every field has the characters its place allows.' }),
      documentNumber: Type.Boolean({ description: 'Its check digit agrees.' }),
      birthDate: Type.Boolean({
        description: 'Its check digit agrees and there is such a day, today or before.',
      }),
      expiryDate: Type.Boolean({ description: 'Its check digit agrees and there is such a day.' }),
      optionalData: Type.Boolean({ description: 'Its check digit agrees, where it has one (TD3).' }),
      composite: Type.Boolean({ description: 'The check digit over the fields together agrees.' }),
      notExpired: Type.Boolean({ description: 'The last valid day (UTC) is today or later.' }),
      nameMatches: Type.Boolean({ description: 'The holder has the name of the user who asks.' }),
    }),
  },
  { description: 'The result. Nothing of the document is kept.' },
)

export function registerVerify(app: App, { database, clock }: Services): void {
  const schema = {
    operationId: 'verifyDocument',
    summary: 'Verify a travel document by its machine-readable zone',
    description: 'ICAO Doc 9303: TD1 and TD2 cards, TD3 passports.',
    tags: ['identity'],
    security: [{ bearer: ['identity:verify'] }],
    body: VerifyBody,
    response: { 200: VerifyResponse, ...problemResponses(401, 403, 413, 415) },
  }
  app.post('/api/verify', { bodyLimit: BODY_LIMIT_BYTES, schema }, async (request) => {
    const userId = requireUserWith(request, 'identity:verify')
    const zone = readMrz(request.body.mrz)
    if (zone === undefined) throw new Error('lines that the schema does not let through')
    const user = await findUser(database, userId)
    if (user === undefined) throw new Problem('unauthenticated')
    const now = clock()
    const checks = checkDocument(zone, user.name, now)
    const status = Object.values(checks).every(Boolean) ? 'verified' : 'rejected'
    const verificationId = uuid()
    await database.query(
      'INSERT INTO verifications (id, user_id, status, created_at) VALUES ($1, $2, $3, $4)',
      [verificationId, userId, status, now],
    )
    return { verificationId, status, checks } as const
  })
}

function checkDocument(
  zone: MachineReadableZone,
  name: string,
  today: Date,
): Static<typeof VerifyResponse>['checks'] {
  const expiry = expiryDay(zone.expiryDate, today)
  return {
    format: zone.wellFormed,
    documentNumber: zone.documentNumberValid,
    birthDate: zone.birthDateValid && isBirthDate(zone.birthDate, today),
    expiryDate: zone.expiryDateValid && expiry !== undefined,
    optionalData: zone.optionalDataValid,
    composite: zone.compositeValid,
    notExpired: expiry !== undefined && isInForce(expiry, today),
    nameMatches: nameMatches(name, zone.names),
  }
}
