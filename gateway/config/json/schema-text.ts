import type { TSchema } from 'typebox'

/* The schemas in config/schemas, made from the declarations in config/keys by `npm run schemas`. Not part of the gateway. */

/** A declaration, as far as its schema says something else. */
interface Declaration {
  readonly description?: string
  readonly env?: string
  readonly restart?: true
  readonly default?: unknown
  readonly enum?: readonly unknown[]
  readonly examples?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Declaration>>
  readonly required?: readonly string[]
  readonly items?: Declaration
  readonly additionalProperties?: boolean | Declaration
}

/** What a description says of a key that a running gateway does not change. */
export const RESTART = ' An edit is in force after a restart.'

/** The text of a JSON Schema 2020-12. */
export function schemaText(file: TSchema): string {
  const $schema = 'https://json-schema.org/draft/2020-12/schema'
  return `${JSON.stringify({ $schema, ...published(file) }, null, 2)}\n`
}

function published(declaration: Declaration): object {
  const { description, env, restart, properties, required, items, additionalProperties, ...words } =
    declaration
  const late = restart === undefined ? '' : RESTART
  const commas = items === undefined ? '' : ', separated by commas'
  const variable = env === undefined ? '' : ` Environment: ${env}${commas}.`
  const needed = required?.filter((name) => properties?.[name]?.default === undefined)
  return {
    ...(description !== undefined && { description: description + late + variable }),
    ...(env !== undefined && { environment: env }),
    ...(restart !== undefined && { restart }),
    ...words,
    examples: words.examples ?? examplesOf(declaration),
    ...(needed !== undefined && needed.length > 0 && { required: needed }),
    properties:
      properties &&
      Object.fromEntries(Object.entries(properties).map(([name, part]) => [name, published(part)])),
    items: items && published(items),
    additionalProperties:
      typeof additionalProperties === 'object' ? published(additionalProperties) : additionalProperties,
  }
}

/** Examples of a key that has none of its own. */
function examplesOf({ default: preset, enum: choices }: Declaration): readonly unknown[] | undefined {
  if (typeof preset === 'boolean' && choices === undefined) return [!preset]
  if (choices !== undefined) return choices
  return preset === undefined ? undefined : [preset]
}
