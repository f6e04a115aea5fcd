import clientsSchema from '../../config/schemas/clients.schema.json' with { type: 'json' }
import gatewaySchema from '../../config/schemas/gateway.schema.json' with { type: 'json' }
import limitsSchema from '../../config/schemas/limits.schema.json' with { type: 'json' }
import { type Environment, parseEnvironment } from '../config/environment.ts'
import { showFault } from '../config/faults.ts'
import { hidden } from '../config/json/hidden-text.ts'
import { JsonFile } from '../config/json/json-file.ts'
import { childPath, parentPath } from '../config/json/json-path.ts'
import { OVERRIDDEN_KEYS } from '../config/json/key-names.ts'
import { type Schema, schemaCheck } from '../config/json/schema-check.ts'
import { loadFile } from '../config/load-file.ts'
import { parseTracingVariables } from '../config/rules/tracing-variables.ts'
import {
  CONFIG_FLAGS,
  type Command,
  CommandFault,
  EXIT,
  environmentOf,
  JSON_FLAG,
  print,
  printJson,
} from './command.ts'
import { readTables } from './explain/row-reasons.ts'

interface Shown {
  /** A key such as `timeouts.connectMs`, or a variable that overrides none. */
  readonly key: string
  readonly value: unknown
  /** A variable, a file, or `default`. */
  readonly from: string
}

export const command: Command = {
  flags: { ...CONFIG_FLAGS, ...JSON_FLAG },
  about: [
    'Shows each value that a gateway started here would use, and its source: a variable, the file or a default. Secrets are hidden. To compare with a running gateway, use "validate --against".',
  ],
  examples: [['countersign config show', 'all values']],
  fault: 'the configuration is faulty',
  run({ flags }) {
    const env = environmentOf(flags)
    const { settings } = readTables(env)
    const { overrides } = parseEnvironment(env)
    const { clientsFile } = settings
    const tracing = tracingVariables(env)
    const values = [
      ...valuesOf(settings.configFile, gatewaySchema, { overrides }).filter(
        ({ key }) => !tracing.replaces(key),
      ),
      ...valuesOf(settings.limitsFile, limitsSchema),
      ...(clientsFile === undefined ? [] : valuesOf(clientsFile, clientsSchema, { secret: true })),
    ]
    const { jwksUri, audience, interactionId } = settings
    for (const [key, value] of Object.entries({ jwksUri, audience, interactionId }))
      if (!values.some((one) => one.key === key)) values.push({ key, value, from: 'default' })
    const shown = [...variablesOf(env), ...tracing.shown, ...values].map((one) => ({
      ...one,
      value: withoutSecret(one),
    }))
    if (flags.json !== undefined) printJson(shown)
    else print(table(shown))
    return EXIT.good
  },
}

/** @throws CommandFault for an invalid file */
function valuesOf(
  file: string,
  schema: Schema,
  options: ConstructorParameters<typeof JsonFile>[3] = {},
): Shown[] {
  const { value: loaded, faults } = loadFile(file, (name, text) => {
    const json = new JsonFile(name, text, schemaCheck(schema), options)
    const found = json.faults()
    return found.length > 0 ? { faults: found } : { value: json }
  })
  if (faults !== undefined) throw new CommandFault(faults.map(showFault).join('\n'))
  const json = loaded.value
  const leaves = [...leavesOf('$', json.value)].filter(([path]) => path !== '$.$schema')
  return leaves.map(([path, value]) => {
    const variable = [path, parentPath(path) ?? path].flatMap(
      (at) => options.overrides?.get(at)?.variable ?? [],
    )[0]
    return { key: path.slice(2), value, from: variable ?? (json.wrote(path) ? file : 'default') }
  })
}

/** Objects and lists of objects are shown by their parts; other lists are one value. */
function* leavesOf(path: string, value: unknown): Iterable<readonly [path: string, value: unknown]> {
  const isBranch = Array.isArray(value)
    ? value.some((entry) => typeof entry === 'object')
    : typeof value === 'object' && value !== null && Object.keys(value).length > 0
  if (!isBranch) yield [path, value]
  else
    for (const [step, part] of Object.entries(value as object))
      yield* leavesOf(childPath(path, Array.isArray(value) ? Number(step) : step), part)
}

function variablesOf(env: Environment): Shown[] {
  return Object.entries(env).flatMap(([key, value]) =>
    key.startsWith('GATEWAY_') && !OVERRIDDEN_KEYS.has(key) ? [{ key, value, from: key }] : [],
  )
}

/** Variables of OpenTelemetry that the gateway reads, and whether one replaces a key. */
function tracingVariables(env: Environment) {
  const names = new Set<string>()
  const noted = new Proxy(env, {
    get: (variables, name: string) => {
      names.add(name)
      return variables[name]
    },
  })
  const { value = {} } = parseTracingVariables(noted)
  const { sampler, ...byKey }: Readonly<Record<string, unknown>> = value
  const replaced = sampler === undefined ? byKey : { ...byKey, ratio: sampler, parents: sampler }
  return {
    shown: [...names].flatMap((key) => (env[key] ? [{ key, value: env[key], from: key }] : [])),
    /** No variable replaces `tracing.resource`; one only adds attributes to it. */
    replaces: (key: string) => {
      const [, name = ''] = /^tracing\.(\w+)/.exec(key) ?? []
      return name !== 'resource' && replaced[name] !== undefined
    },
  }
}

function withoutSecret({ key, value }: Shown): unknown {
  // `hidden` finds a secret by the key before it.
  const name = `${JSON.stringify(key.replace(/^.*\./, ''))}:`
  return JSON.parse(hidden(name + JSON.stringify(value), 0, []).slice(name.length))
}

function table(shown: readonly Shown[]): string {
  const rows = [
    ['KEY', 'FROM', 'VALUE'],
    ...shown.map(({ key, from, value }) => [key, from, JSON.stringify(value)]),
  ]
  const width = (column: number) => Math.max(...rows.map((row) => row[column]?.length ?? 0)) + 2
  const [keys, sources] = [width(0), width(1)]
  return rows
    .map(([key = '', from = '', value]) => key.padEnd(keys) + from.padEnd(sources) + value)
    .join('\n')
}
