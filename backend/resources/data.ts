import { Type } from 'typebox'
import { requirePrincipal } from '../caller.ts'
import { CURRENCIES } from '../money/money.ts'
import { problemResponses } from '../problems.ts'
import type { App } from '../services.ts'

const Currency = Type.Object({
  code: Type.String({ examples: ['EUR'] }),
  name: Type.String({ examples: ['Euro'] }),
  minorUnits: Type.Union([Type.Integer(), Type.Null()], {
    description: 'Decimals of an amount; null where ISO 4217 has none.',
    examples: [2],
  }),
})

export function registerData(app: App): void {
  const schema = {
    operationId: 'getReferenceData',
    summary: 'The currencies of ISO 4217',
    tags: ['reference'],
    description: 'A machine caller may also prove itself by its client certificate.',
    security: [{ bearer: [] }],
    response: {
      200: Type.Object(
        { currencies: Type.Array(Currency) },
        { description: 'ISO 4217 list one, sorted by code.' },
      ),
      ...problemResponses(401),
    },
  }
  app.get('/api/data', { schema }, async (request) => {
    requirePrincipal(request)
    return { currencies: [...CURRENCIES] }
  })
}
