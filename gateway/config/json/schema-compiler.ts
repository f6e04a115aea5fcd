import { readFileSync } from 'node:fs'
import { Ajv2020, type Options } from 'ajv/dist/2020.js'
import standaloneCode from 'ajv/dist/standalone/index.js'
import { type SchemaCheck, schemaCheck } from './schema-check.ts'

const SCHEMAS = new URL('../../../config/schemas/', import.meta.url)
/** Names of the validators, and the schemas that they are of. */
const EXPORTS = { validateClients: 'clients', validateGateway: 'gateway', validateLimits: 'limits' }
const OPTIONS: Options = {
  allErrors: true,
  strict: true,
  allowUnionTypes: true,
  useDefaults: true,
  verbose: true,
}
/** What is for people only. */
const PROSE = new Set(['title', 'description', 'examples'])
/** Below them are names of keys, not keywords. */
const NAMES = new Set(['properties', '$defs'])
const REQUIRE = /const (\w+) = require\("([^"]+)"\)\.default;/g

/**
 * Compiles a JSON Schema 2020-12.
 *
 * Beside the standard keywords it may use `patternErrorMessage`, which editors know too: the sentence for a text that
 * a `pattern` refuses.
 *
 * @throws Error when the schema itself is not valid.
 */
export function compileSchema(schema: object): SchemaCheck {
  return schemaCheck(compiler(OPTIONS).compile(schema), schema)
}

/**
 * The source of validators.ts: what the schemas in config/schemas are compiled to, so that a start need not do it.
 *
 * @throws Error when one of them is not valid.
 */
export function validatorsSource(): string {
  const ajv = compiler({ ...OPTIONS, code: { source: true, esm: true } })
  for (const name of Object.values(EXPORTS)) {
    const schema: object = JSON.parse(readFileSync(new URL(`${name}.schema.json`, SCHEMAS), 'utf8'))
    // With the prose, which has its rules as well.
    ajv.compile(schema)
    ajv.addSchema({ ...(withoutProse(schema) as object), $id: name })
  }
  // The library writes `require` also where it is told to write a module.
  const code = standaloneCode
    .default(ajv, EXPORTS)
    .replace(REQUIRE, 'import $1_ from "$2.js";const $1 = $1_.default;')
  return `// @ts-nocheck Generated of config/schemas by "npm run schemas".\n${code}\n`
}

function compiler(options: Options): Ajv2020 {
  const ajv = new Ajv2020(options)
  ajv.addKeyword({ keyword: 'patternErrorMessage', schemaType: 'string' })
  return ajv
}

/** No sentence about a fault repeats it, and it is half of the text. */
function withoutProse(value: unknown, areNames = false): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutProse(item))
  if (typeof value !== 'object' || value === null) return value
  const kept = Object.entries(value).filter(([key]) => areNames || !PROSE.has(key))
  return Object.fromEntries(kept.map(([key, part]) => [key, withoutProse(part, !areNames && NAMES.has(key))]))
}
