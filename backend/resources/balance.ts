import { Type } from 'typebox'
import { requireUserWith } from '../caller.ts'
import { accountOf } from '../money/ledger.ts'
import { decimalsOf, fromMinor } from '../money/money.ts'
import { Problem, problemResponses } from '../problems.ts'
import type { App, Services } from '../services.ts'

const BalanceResponse = Type.Object(
  {
    accountId: Type.String({ format: 'uuid' }),
    currency: Type.String({ examples: ['EUR'] }),
    balance: Type.String({ description: 'The booked amount.', examples: ['1000.00'] }),
    available: Type.String({
      description: 'What a transfer may use; there are no holds.',
      examples: ['1000.00'],
    }),
    asOf: Type.String({ format: 'date-time' }),
  },
  { description: 'The balance of the account of the caller.' },
)

export function registerBalance(app: App, { database, clock }: Services): void {
  const schema = {
    operationId: 'getBalance',
    summary: 'The balance of your account',
    tags: ['account'],
    security: [{ bearer: ['accounts:read'] }],
    response: { 200: BalanceResponse, ...problemResponses(401, 403) },
  }
  app.get('/api/balance', { schema }, async (request) => {
    const account = await accountOf(database, requireUserWith(request, 'accounts:read'))
    // Only a deleted user has no account.
    if (account === undefined) throw new Problem('unauthenticated')
    const { id: accountId, currency, balanceMinor } = account
    const balance = fromMinor(balanceMinor, decimalsOf(currency))
    return { accountId, currency, balance, available: balance, asOf: clock().toISOString() }
  })
}
