import type { TSchema } from 'typebox'
import type { Schema } from './schema-check.ts'

/* Makes config/schemas from the declarations in config/keys, for `npm run schemas`. Not part of the gateway. */

/** A declaration, or a schema made of it. */
export interface Declaration extends Schema {
  readonly description?: string
  readonly env?: string
  readonly restart?: true
  readonly examples?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Declaration>>
  readonly items?: Declaration
  readonly additionalProperties?: boolean | Declaration
}

export const RESTART = ' An edit is in force after a restart.'

export function schemaText(file: TSchema): string {
  const $schema = 'https://json-schema.org/draft/2020-12/schema'
  return `${JSON.stringify({ $schema, ...published(file) }, null, 2)}\n`
}

function published(declaration: Declaration): object {
  const {
    description,
    env,
    restart,
    properties,
    required: _,
    items,
    additionalProperties,
    ...words
  } = declaration
  const late = restart === undefined ? '' : RESTART
  const commas = items === undefined ? '' : ', separated by commas'
  const variable = env === undefined ? '' : ` Environment: ${env}${commas}.`
  const needed = neededOf(declaration)
  return {
    ...(description !== undefined && { description: description + late + variable }),
    ...(env !== undefined && { environment: env }),
    ...(restart !== undefined && { restart }),
    ...words,
    examples: description === undefined ? words.examples : examplesOf(declaration),
    ...(needed.length > 0 && { required: needed }),
    properties:
      properties &&
      Object.fromEntries(Object.entries(properties).map(([name, part]) => [name, published(part)])),
    items: items && published(items),
    additionalProperties:
      typeof additionalProperties === 'object' ? published(additionalProperties) : additionalProperties,
  }
}

function examplesOf(declaration: Declaration): readonly unknown[] | undefined {
  const { default: preset, enum: choices, examples, items } = declaration
  if (examples !== undefined) return examples
  if (typeof preset === 'boolean' && choices === undefined) return [!preset]
  if (choices !== undefined) return choices
  if (neededOf(declaration).length > 0) return [leastOf(declaration)]
  if (items !== undefined && neededOf(items).length > 0) return [[leastOf(items)]]
  return preset === undefined ? undefined : [preset]
}

function leastOf(declaration: Declaration): object {
  const { properties = {} } = declaration
  return Object.fromEntries(
    neededOf(declaration).map((name) => [name, examplesOf(properties[name] ?? {})?.[0]]),
  )
}

function neededOf({ required = [], properties = {} }: Declaration): readonly string[] {
  return required.filter((name) => properties[name]?.default === undefined)
}
