import { constants, copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { showFault } from '../config/faults.ts'
import { parseGatewayFile } from '../config/gateway-file.ts'
import { loadFile } from '../config/load-file.ts'
import { tidyUpstream, upstreamFault } from '../config/rules/value-rules.ts'
import { type Command, CommandFault, EXIT, flagValue, UsageFault } from './command.ts'
import { type RouteRow, routesOf } from './openapi-routes.ts'
import { print } from './print.ts'

/** Beside the program, in a checkout and in the package. */
const SCHEMAS = new URL('../../config/schemas/', import.meta.url)
const SCHEMA_FILES = ['gateway', 'limits', 'clients'].map((name) => `${name}.schema.json`)
const EVERYTHING: readonly RouteRow[] = [{ path: '/*', auth: ['none'] }]
const LIMITS = [
  {
    path: '/*',
    limit: 600,
    window: '1m',
    per: 'address',
    purpose: 'Keeps one address from crowding out the others',
  },
]

export const command: Command = {
  words: '',
  count: [0, 0],
  flags: {
    upstream: { value: 'URL', about: 'your service: http://host:port, https://host:port or unix:/path.sock' },
    openapi: { value: 'FILE', about: 'its OpenAPI document in JSON: a route for each of its paths' },
    dir: { value: 'DIRECTORY', about: 'where to write; default config' },
  },
  about: [
    'Writes gateway.json and limits.json for your service, and the schemas that explain them in an editor. Nothing that exists is overwritten.',
    'Without --openapi one route lets everything through, for anyone: limits, headers, audit trail and metrics, but no authentication. With it only what the document names is let through; what it secures by bearer tokens or client certificates the gateway demands.',
    'The routes are written out and then yours to edit. To have them follow the document instead, and requests checked against its schemas, gateway.json has the key "openapi" (config/README.md).',
  ],
  examples: [
    ['countersign init --upstream http://127.0.0.1:3000', 'config/gateway.json and config/limits.json'],
    [
      'countersign init --upstream http://127.0.0.1:3000 --openapi openapi.json',
      'a route for each path of the document',
    ],
  ],
  fault: 'a file is there already, or the document cannot be used',
  run({ flags }) {
    const upstream = flagValue(flags, 'upstream')
    if (upstream === undefined) throw new UsageFault('needs --upstream URL, your service')
    const reason = upstreamFault(tidyUpstream(upstream))
    if (reason !== undefined) throw new UsageFault(`--upstream ${reason}`)
    const directory = flagValue(flags, 'dir') ?? 'config'
    const { routes, notes } = readRoutes(flagValue(flags, 'openapi'))
    const gatewayFile = join(directory, 'gateway.json')
    const limitsFile = join(directory, 'limits.json')
    const gateway = jsonFile({ $schema: './schemas/gateway.schema.json', upstream, routes })
    const { faults } = parseGatewayFile(gatewayFile, gateway)
    if (faults !== undefined)
      throw new CommandFault(`nothing was written:\n${faults.map(showFault).join('\n')}`)
    writeNew(directory, [
      [gatewayFile, gateway],
      [limitsFile, jsonFile({ $schema: './schemas/limits.schema.json', limits: LIMITS })],
    ])
    print(`${gatewayFile}: ${routes.length === 1 ? '1 route' : `${routes.length} routes`} to ${upstream}`)
    print(`${limitsFile}: 600 requests a minute for each address`)
    for (const note of notes) print(`note: ${note}`)
    const named = directory === 'config' ? '' : ` --config ${gatewayFile} --limits ${limitsFile}`
    print(`next: npx -- countersign run${named}`)
    return EXIT.good
  },
}

function readRoutes(file: string | undefined): {
  readonly routes: readonly RouteRow[]
  readonly notes: readonly string[]
} {
  if (file === undefined) return { routes: EVERYTHING, notes: [] }
  const { value, faults } = loadFile(file, (_, text) => ({ value: text }))
  if (faults !== undefined) throw new CommandFault(faults.map(showFault).join('\n'))
  try {
    return routesOf(parseJson(value.text))
  } catch (error) {
    throw new CommandFault(`${file} ${error instanceof Error ? error.message : String(error)}`)
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error('is not JSON: convert a document in YAML first')
  }
}

function jsonFile(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

/** Writes all files or none, and the schemas where they are missing. @throws CommandFault when one exists */
function writeNew(directory: string, files: readonly (readonly [file: string, text: string])[]): void {
  const present = files.map(([file]) => file).filter((file) => existsSync(file))
  if (present.length > 0)
    throw new CommandFault(`${present.join(' and ')}: there already, and nothing is overwritten`)
  const written: string[] = []
  try {
    mkdirSync(join(directory, 'schemas'), { recursive: true })
    for (const [file, text] of files) {
      // Of two that run at once, one fails here.
      writeFileSync(file, text, { flag: 'wx' })
      written.push(file)
    }
    for (const name of SCHEMA_FILES) {
      const schema = join(directory, 'schemas', name)
      if (!existsSync(schema))
        copyFileSync(fileURLToPath(new URL(name, SCHEMAS)), schema, constants.COPYFILE_EXCL)
    }
  } catch (error) {
    for (const file of written) rmSync(file, { force: true })
    throw new CommandFault(`nothing was written: ${error instanceof Error ? error.message : String(error)}`)
  }
}
