import { type Static, Type } from 'typebox'
import { requireUserWith } from '../caller.ts'
import type { Queryable } from '../database/database.ts'
import { idempotencyKey, KEY_PATTERN, respondOnce, type StoredResponse } from '../money/idempotency.ts'
import { accountOf, type TransferOrder, transfer } from '../money/ledger.ts'
import { amountPattern, CURRENCIES, decimalsOf, fromMinor, toMinor } from '../money/money.ts'
import { PROBLEM_MEDIA_TYPE, Problem, problemBody, problemResponses } from '../problems.ts'
import type { App, Services } from '../services.ts'

const PATH = '/api/transfer'

/** The codes of ISO 4217 that have amounts; metals, for example, have none. */
const WITH_AMOUNTS = CURRENCIES.flatMap(({ code, minorUnits }) =>
  minorUnits === null ? [] : [{ code, minorUnits }],
)
const DECIMALS = [...new Set(WITH_AMOUNTS.map(({ minorUnits }) => minorUnits))].sort()

/** An amount's form depends on the currency: 1.5 is no amount of JPY. */
const amountsByCurrency = DECIMALS.map((decimals) => ({
  if: {
    required: ['currency'],
    properties: {
      currency: {
        enum: WITH_AMOUNTS.filter(({ minorUnits }) => minorUnits === decimals).map(({ code }) => code),
      },
    },
  },
  // biome-ignore lint/suspicious/noThenProperty: a word of JSON Schema
  then: {
    properties: {
      amount: {
        pattern: amountPattern(decimals),
        description: `a decimal number above zero, with at most ${decimals} decimals in this currency`,
      },
    },
  },
}))

const TransferBody = Type.Object(
  {
    toAccountId: Type.String({
      // The format "uuid" would also accept urn:uuid:….
      pattern: '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$',
      description: 'an account id (UUID)',
      examples: ['0199f4a8-6c1e-7d53-9f0e-0c7c1c6b1f7e'],
    }),
    amount: Type.String({
      pattern: amountPattern(Math.max(...DECIMALS)),
      description: 'a decimal number such as 12.50, above zero, with no more decimals than the currency has',
      examples: ['12.50'],
    }),
    currency: Type.Enum(
      WITH_AMOUNTS.map(({ code }) => code),
      { description: 'an ISO 4217 code of a currency that has amounts, such as EUR', examples: ['EUR'] },
    ),
    reference: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 140,
        pattern: '^[^\\u0000-\\u001f\\u007f]*$',
        description: 'text of one line',
        examples: ['Invoice 2026-118'],
      }),
    ),
  },
  { additionalProperties: false, allOf: amountsByCurrency },
)

const TransferResponse = Type.Object(
  {
    transferId: Type.String({ format: 'uuid' }),
    fromAccountId: Type.String({ format: 'uuid' }),
    toAccountId: Type.String({ format: 'uuid' }),
    amount: Type.String({ examples: ['12.50'] }),
    currency: Type.String({ examples: ['EUR'] }),
    status: Type.Literal('completed'),
    createdAt: Type.String({ format: 'date-time' }),
    reference: Type.Optional(Type.String({ examples: ['Invoice 2026-118'] })),
  },
  { description: 'The transfer is booked on both accounts.' },
)

export function registerTransfer(app: App, { database, clock }: Services): void {
  const schema = {
    operationId: 'createTransfer',
    summary: 'Transfer money from your account',
    description:
      'With an Idempotency-Key the transfer happens once however often it is sent: for 24 hours a repetition ' +
      'gets the first response again, success or refusal, with Idempotency-Replayed: true.',
    tags: ['account'],
    security: [{ bearer: ['transfers:write'] }],
    headers: Type.Object({
      'idempotency-key': Type.Optional(
        Type.String({
          pattern: KEY_PATTERN,
          description: 'one key of 1 to 255 characters, in double quotes or plain',
          examples: ['"8e03978e-40d5-43e8-bc93"'],
        }),
      ),
    }),
    body: TransferBody,
    response: { 201: TransferResponse, ...problemResponses(401, 403, 409, 413, 415, 422) },
  }
  app.post(PATH, { schema }, async (request, reply) => {
    const userId = requireUserWith(request, 'transfers:write')
    const order = { userId, ...readOrder(request.body) }
    const key = idempotencyKey(request.headers['idempotency-key'])
    const work = (transaction: Queryable) => carryOut(transaction, order, clock(), request.id)
    const source = await accountOf(database, userId)
    const queueBy = [order.toAccountId, ...(source === undefined ? [] : [source.id])]
    const { response, replayed } =
      key === undefined
        ? { response: await database.transaction(work, { queueBy }), replayed: false }
        : await respondOnce(
            database,
            { caller: userId, path: PATH, key, fingerprint: fingerprint(order) },
            { work, queueBy },
          )
    if (replayed) reply.header('idempotency-replayed', 'true')
    return (
      reply
        .code(response.status as 201)
        .type(response.status < 400 ? 'application/json' : PROBLEM_MEDIA_TYPE)
        // The body is text already, so that a replay equals the first response in every byte.
        .serializer((body: string) => body)
        .send(response.body as never)
    )
  })
}

type Order = Omit<TransferOrder, 'userId'>

function readOrder({ toAccountId, amount, currency, reference }: Static<typeof TransferBody>): Order {
  const amountMinor = toMinor(amount, decimalsOf(currency))
  if (amountMinor === undefined) throw new Error('an amount that the schema does not let through')
  return { toAccountId: toAccountId.toLowerCase(), amountMinor, currency, reference }
}

/** Equal for orders with the same meaning, such as `12.5` and `12.50`. */
function fingerprint({ toAccountId, amountMinor, currency, reference }: Order): string {
  return JSON.stringify([toAccountId, amountMinor.toString(), currency, reference ?? null])
}

async function carryOut(
  transaction: Queryable,
  order: TransferOrder,
  now: Date,
  requestId: string,
): Promise<StoredResponse> {
  const made = await transfer(transaction, order, now)
  // A deleted user's token may still be valid.
  if (made === 'no_account') throw new Problem('unauthenticated')
  if (typeof made === 'string') return { status: 422, body: problemBody(new Problem(made), requestId) }
  const body: Static<typeof TransferResponse> = {
    transferId: made.id,
    fromAccountId: made.fromAccountId,
    toAccountId: made.toAccountId,
    amount: fromMinor(made.amountMinor, decimalsOf(made.currency)),
    currency: made.currency,
    status: 'completed',
    createdAt: made.createdAt.toISOString(),
    ...(made.reference === undefined ? {} : { reference: made.reference }),
  }
  return { status: 201, body: JSON.stringify(body) }
}
