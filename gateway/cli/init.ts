import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { showFault } from '../config/faults.ts'
import { parseGatewayFile } from '../config/gateway-file.ts'
import { loadFile } from '../config/load-file.ts'
import { openApiFile } from '../config/openapi/openapi-document.ts'
import { authOf } from '../config/openapi/request-security.ts'
import { isHttp2Upstream, tidyUpstream, upstreamFault } from '../config/rules/value-rules.ts'
import { discard } from '../storage/line-file.ts'
import { plural } from '../terminal/printable.ts'
import { type Command, CommandFault, EXIT, print, UsageFault } from './command.ts'
import { discoverIssuer } from './discovery/discover-issuer.ts'

/** Schemas, at the same place in a checkout and in the package. */
const SCHEMAS = new URL('../../config/schemas/', import.meta.url)
const SCHEMA_FILES = ['gateway', 'limits', 'clients'].map((name) => `${name}.schema.json`)
const GRPC_CLIENTS =
  'clients of gRPC need "tls" in gateway.json, or "http2": true without it (docs/operate/grpc.md)'
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
  flags: {
    upstream: {
      value: 'URL',
      about: 'your service: http, https, h2c or h2 (HTTP/2, gRPC too) with ://host:port, or unix:/path.sock',
    },
    openapi: { value: 'FILE', about: 'its OpenAPI document, JSON or YAML: each operation becomes a route' },
    issuer: { value: 'URL', about: 'your identity provider, written as in the claim iss of its tokens' },
    audience: { value: 'TEXT', about: 'the claim aud of its tokens: your API' },
    dir: { value: 'DIRECTORY', about: 'where to write; default config' },
  },
  about: [
    'Writes gateway.json and limits.json for your service, and schemas that explain their keys in an editor. Existing files are not overwritten.',
    'Without --openapi and --issuer, one route lets everybody through without authentication. With --openapi, the gateway lets through the operations of the document, and demands the credentials that it names for each.',
    'With --issuer, the command reads the discovery document of the provider (within 5 s; over https, or from this machine). It writes "issuer", "jwksUri", "audience" and the preset of "tokens". Every request then needs a token, unless the OpenAPI document says otherwise. For a provider that publishes no keys it writes "introspection"; fill in the client there. If the provider cannot be reached, it writes the usual values, and says so.',
    'Rows of "routes" in gateway.json replace or add to operations of the document; "validateRequests" checks requests against the schemas of the document (docs/operate/configuration.md).',
  ],
  examples: [
    ['countersign init --upstream http://127.0.0.1:3000', 'config/gateway.json and config/limits.json'],
    [
      'countersign init --upstream http://127.0.0.1:3000 --openapi openapi.json',
      'a route for each operation of the document',
    ],
    [
      'countersign init --upstream http://127.0.0.1:3000 --issuer https://id.example/realms/bank --audience https://api.example',
      'every request needs a token of the provider',
    ],
    ['countersign init --upstream h2c://127.0.0.1:50051', 'a gRPC service without TLS'],
  ],
  fault: 'a file exists already, or a document cannot be used',
  async run({ flags }) {
    const upstream = flags.upstream
    if (upstream === undefined) throw new UsageFault('needs --upstream URL, your service')
    const reason = upstreamFault(tidyUpstream(upstream))
    if (reason !== undefined) throw new UsageFault(`--upstream ${reason}`)
    const { dir: directory = 'config', issuer, audience } = flags
    if (issuer === undefined && audience !== undefined) throw new UsageFault('--audience needs --issuer URL')
    const { routing, notes: open } = routingFor(flags.openapi, issuer !== undefined)
    const provider = issuer === undefined ? undefined : await discoverIssuer(issuer, audience)
    const notes = [...open, ...(provider?.notes ?? []), ...(isHttp2Upstream(upstream) ? [GRPC_CLIENTS] : [])]
    const gatewayFile = join(directory, 'gateway.json')
    const limitsFile = join(directory, 'limits.json')
    const gateway = jsonFile({
      $schema: './schemas/gateway.schema.json',
      upstream,
      ...provider?.keys,
      ...routing,
    })
    const { value, faults } = parseGatewayFile(gatewayFile, gateway)
    if (faults !== undefined)
      throw new CommandFault(`nothing was written:\n${faults.map(showFault).join('\n')}`)
    writeNew(directory, [
      [gatewayFile, gateway],
      [limitsFile, jsonFile({ $schema: './schemas/limits.schema.json', limits: LIMITS })],
    ])
    const { routes } = value
    print(`${gatewayFile}: ${plural(routes.length, 'route')} to ${upstream}`)
    print(`${limitsFile}: 600 requests a minute for each address`)
    if (provider !== undefined) print(`${issuer}: ${provider.found}`)
    for (const note of notes) print(`note: ${note}`)
    const named = directory === 'config' ? '' : ` --config ${gatewayFile} --limits ${limitsFile}`
    print(`next: npx -- countersign run${named}`)
    return EXIT.good
  },
}

/** gateway.json's keys for routes, with notes on what the document leaves open. */
function routingFor(file: string | undefined, hasIssuer: boolean): { routing: object; notes: string[] } {
  if (file === undefined)
    return { routing: { routes: [{ path: '/*', auth: [hasIssuer ? 'bearer' : 'none'] }] }, notes: [] }
  const { value, faults } = loadFile(file, (_, text) => {
    const document = openApiFile(file, text)
    return document.value === undefined ? { faults: document.faults() } : { value: document.value }
  })
  if (faults !== undefined) throw new CommandFault(faults.map(showFault).join('\n'))
  const { security, servers, components } = value.value
  const notes: string[] = []
  const schemes = components?.securitySchemes ?? {}
  const known = Object.keys(schemes).map((name) => ({ name, auth: authOf(name, { schemes, mapped: {} }) }))
  const unknown = known.filter(({ auth }) => auth === undefined).map(({ name }) => name)
  if (unknown.length > 0)
    notes.push(
      `the service must check what the gateway does not know: ${unknown.join(', ')} (openapi.schemes)`,
    )
  if (security === undefined)
    notes.push(
      hasIssuer
        ? 'operations for which the document has no "security" need a token (openapi.auth)'
        : 'anyone may call operations for which the document has no "security" (openapi.auth)',
    )
  const hasTemplate = String(servers?.[0]?.url).includes('{')
  if (hasTemplate) notes.push('the first server is a template, so no base path is known (openapi.basePath)')
  if (!hasIssuer && known.some(({ auth }) => auth === 'bearer'))
    notes.push('tokens need "issuer", "audience" and "jwksUri" in gateway.json')
  if (known.some(({ auth }) => auth === 'mtls'))
    notes.push('client certificates need "tls" with "clientCaFile", and clients.json')
  notes.push(
    'what the document does not name gets 404: add rows of "routes" for WebSockets, pages of documentation and the like',
  )
  const openapi = {
    file,
    ...(hasTemplate && { basePath: '' }),
    ...(unknown.length > 0 && { schemes: Object.fromEntries(unknown.map((name) => [name, 'none'])) }),
    ...(security === undefined && { auth: [hasIssuer ? 'bearer' : 'none'] }),
  }
  return { routing: { openapi }, notes }
}

function jsonFile(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

/** Writes all files or none, and missing schemas. @throws CommandFault when a file exists */
function writeNew(directory: string, files: readonly (readonly [file: string, text: string])[]): void {
  const present = files.map(([file]) => file).filter((file) => existsSync(file))
  if (present.length > 0)
    throw new CommandFault(`${present.join(' and ')}: there already, and nothing is overwritten`)
  const written: string[] = []
  try {
    mkdirSync(join(directory, 'schemas'), { recursive: true })
    for (const [file, text] of files) writeOne(file, text, written)
    for (const name of SCHEMA_FILES) {
      const schema = join(directory, 'schemas', name)
      if (!existsSync(schema)) writeOne(schema, readFileSync(new URL(name, SCHEMAS)), written)
    }
  } catch (error) {
    for (const file of written) discard(file)
    throw new CommandFault(`nothing was written: ${(error as Error).message}`)
  }
}

/** @param written gets the name as soon as the file exists */
function writeOne(file: string, text: string | Buffer, written: string[]): void {
  // When two commands run at once, one fails here and leaves the other's file.
  const fd = openSync(file, 'wx')
  written.push(file)
  try {
    writeFileSync(fd, text)
  } finally {
    closeSync(fd)
  }
}
