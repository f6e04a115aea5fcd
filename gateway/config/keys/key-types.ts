import { type Static, type TOptional, type TProperties, type TSchema, Type } from 'typebox'

/* Declares keys of the configuration files. `npm run schemas` makes schemas and reference from the declarations. */

interface KeyOptions {
  /** The environment variable that overrides the key. */
  readonly env?: string
  /** A change needs a restart: whoever uses the key reads it once, at the start. */
  readonly restart?: true
  readonly required?: true
  readonly default?: unknown
  /** For editors and the reference; not needed for a choice, a flag with a default, or if the default shows enough. */
  readonly examples?: readonly unknown[]
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly patternErrorMessage?: string
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: true
  readonly minProperties?: number
  readonly maxProperties?: number
}

/** A key is always there when it is required or has a default. */
type Declared<T extends TSchema, O> = O extends { readonly default: unknown } | { readonly required: true }
  ? T
  : TOptional<T>

type Frozen<T> = T extends object
  ? { readonly [Key in keyof T]: Frozen<T[Key]> | (object extends Pick<T, Key> ? undefined : never) }
  : T

/** The value of a file or key as it is read, with its defaults. Immutable. */
export type Written<T extends TSchema> = Frozen<Static<T>>

/** Declares a key of a type that has no function of its own here. */
export function key<T extends TSchema, const O extends KeyOptions>(
  type: T,
  description: string,
  options?: O,
): Declared<T, O> {
  const { required, ...words } = options ?? ({} as O)
  const schema = { ...type, description, ...words } as unknown as T
  const isThere = required === true || words.default !== undefined
  return (isThere ? schema : Type.Optional(schema)) as Declared<T, O>
}

const keyOf =
  <T extends TSchema>(type: T) =>
  <const O extends KeyOptions>(description: string, options?: O) =>
    key(type, description, options)

export const flag = keyOf(Type.Boolean())
export const TEXT = Type.String({ minLength: 1 })
export const text = keyOf(TEXT)
export const share = keyOf(Type.Number({ minimum: 0, maximum: 1 }))
export const anyText = keyOf(Type.String())
export const port = keyOf(Type.Integer({ minimum: 0, maximum: 65_535 }))
export const milliseconds = keyOf(Type.Integer({ minimum: 1, maximum: 86_400_000 }))
export const bytes = keyOf(Type.Integer({ minimum: 0, maximum: 1_099_511_627_776 }))
export const networks = keyOf(Type.Array(TEXT, { uniqueItems: true }))

type Bounded = KeyOptions & { readonly range: readonly [min: number, max?: number] }

export function integer<const O extends Bounded>(
  description: string,
  { range: [minimum, maximum], ...options }: O,
): Declared<ReturnType<typeof Type.Integer>, O> {
  const type = Type.Integer({ minimum, ...(maximum !== undefined && { maximum }) })
  return key(type, description, options as KeyOptions) as Declared<typeof type, O>
}

export function choice<const V extends string | boolean, const O extends KeyOptions>(
  values: readonly V[],
  description: string,
  options?: O,
): Declared<ReturnType<typeof Type.Unsafe<V>>, O> {
  return key(Type.Unsafe<V>({ enum: values }), description, options)
}

export function list<T extends TSchema, const O extends KeyOptions>(
  entry: T,
  description: string,
  options?: O,
): Declared<ReturnType<typeof Type.Array<T>>, O> {
  return key(Type.Array(entry), description, options)
}

/** Values by names that the operator chooses. */
export function byName<T extends TSchema>(value: T) {
  return Type.Unsafe<Record<string, Static<T>>>({ type: 'object', additionalProperties: value })
}

export function span<const O extends KeyOptions>(
  units: 'smh' | 'smhd',
  description: string,
  options: O,
): Declared<ReturnType<typeof Type.String>, O> {
  const sentence =
    units === 'smh'
      ? 'must be a whole number followed by s, m or h, such as "30s", "1m" or "1h"'
      : 'must be a whole number followed by s, m, h or d, such as "30s", "1m", "1h" or "1d"'
  const type = Type.String({ pattern: `^[1-9][0-9]*[${units}]$`, patternErrorMessage: sentence })
  return key(type, description, options)
}

export function keys<P extends TProperties>(
  properties: P,
  options: { readonly minProperties?: number; readonly writeOnly?: true } = {},
) {
  return Type.Object(properties, { additionalProperties: false, ...options })
}

export function file<P extends TProperties>(name: string, description: string, properties: P) {
  const options = { description, title: `Countersign ${name}.json` }
  const examples = [`./schemas/${name}.schema.json`]
  const about = 'For editors: where the schema of this file is.'
  return { ...keys({ $schema: anyText(about, { examples }), ...properties }), ...options }
}
