import assert from 'node:assert/strict'
import { OperationRules } from './compiled-operations.ts'
import { asJsonSchemas } from './openapi-schemas.ts'

type Check = (body: unknown) => string | undefined

/** Makes a function for each schema, which says what is wrong with a JSON body as `pointer reason`. All share a compiler. */
export function checkers(schemas: readonly object[], components: object = {}, openapi = '3.1.0'): Check[] {
  const operations = schemas.map((schema) => ({
    post: { requestBody: { content: { 'application/json': { schema } } } },
  }))
  const paths = Object.fromEntries(operations.map((operation, i) => [`/${i}`, operation]))
  const places = schemas.map((_, i) => ({ path: `/${i}`, pointer: `/paths/~1${i}/post` }))
  const rules = new OperationRules(asJsonSchemas({ openapi, paths, components }), places)
  return places.map((place) => {
    const fits = rules.get(place)?.content?.[0]?.fits
    return (body) => {
      const misfit = fits?.(body)
      return misfit && `${misfit.pointer} ${misfit.reason}`
    }
  })
}

export function checker(schema: object, components?: object, openapi?: string): Check {
  const [check] = checkers([schema], components, openapi)
  return check ?? assert.fail()
}
