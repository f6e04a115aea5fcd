import { hash, type KeyObject } from 'node:crypto'
import schema from '../../../config/schemas/clients.schema.json' with { type: 'json' }
import { keysOf, type Principal } from '../../principal.ts'
import { parsedJson } from '../../storage/line-file.ts'
import { type Fault, keyFaults, type Parsed } from '../faults.ts'
import { JsonFile } from '../json/json-file.ts'
import { schemaCheck } from '../json/schema-check.ts'
import type { CLIENT_KEYS, CLIENTS_FILE } from '../keys/clients-keys.ts'
import type { Written } from '../keys/key-types.ts'
import { namedText } from '../load-file.ts'
import { canonicalName } from '../rules/distinguished-name.ts'
import { privateUrlFault } from '../rules/value-rules.ts'
import type { Route } from '../settings.ts'
import { readSecret, type SecretSources, THIS_MACHINE } from './client-secrets.ts'
import { profileFault, profileOf, type SignatureProfile } from './signature-profiles.ts'
import { schemeFault, schemeOf, type WebhookScheme } from './webhook-schemes.ts'

/** An entry of config/clients.json. It has no secrets, so the audit trail can record it. */
type ClientRow = Written<typeof CLIENT_KEYS>

export interface WebhookKey {
  /** Its `keyId`, or `client:` and the id of its client. */
  readonly name: string
  readonly scheme: WebhookScheme
  readonly principal: Principal
  /** At least one; any of them may have signed. Key objects do not appear in logs and JSON. */
  readonly secrets: readonly KeyObject[]
}

export interface ClientSigner {
  readonly principal: Principal
  readonly profile: SignatureProfile
  /** An address, or the name of a file and the JSON in it. */
  readonly keys: { readonly uri: string; readonly document?: unknown }
}

/** The clients of config/clients.json with their secrets. Immutable data, so that two tables can be compared. */
export interface ClientTable {
  readonly rows: readonly ClientRow[]
  /** By `X-API-Key`. */
  readonly byKeyId: ReadonlyMap<string, WebhookKey>
  /** By client id. */
  readonly byWebhookClient: ReadonlyMap<string, WebhookKey>
  /** By SHA-256 of the certificate's DER, 64 hexadecimal digits in lower case. */
  readonly byThumbprint: ReadonlyMap<string, Principal>
  /** In lower case. */
  readonly bySanDns: ReadonlyMap<string, Principal>
  readonly bySanUri: ReadonlyMap<string, Principal>
  /** In the form of `canonicalName`. */
  readonly bySubject: ReadonlyMap<string, Principal>
  readonly byOrganization: ReadonlyMap<string, Principal>
  /** Ids of the clients that have the PSD2 roles of their certificates as scopes. */
  readonly withPsd2Roles: ReadonlySet<string>
  /** By client id: the authorities that may issue its certificate, as thumbprints or canonical names. */
  readonly issuers: ReadonlyMap<string, readonly string[]>
  /** By client id: the name of its plan in limits.json. */
  readonly plans: ReadonlyMap<string, string>
  /** By client id. */
  readonly signers: ReadonlyMap<string, ClientSigner>
  /** The files that rows name, with their SHA-256. */
  readonly files: ReadonlyMap<string, string>
}

const emptyTables = () => ({
  byKeyId: new Map<string, WebhookKey>(),
  byWebhookClient: new Map<string, WebhookKey>(),
  byThumbprint: new Map<string, Principal>(),
  bySanDns: new Map<string, Principal>(),
  bySanUri: new Map<string, Principal>(),
  bySubject: new Map<string, Principal>(),
  byOrganization: new Map<string, Principal>(),
  withPsd2Roles: new Set<string>(),
  issuers: new Map<string, readonly string[]>(),
  plans: new Map<string, string>(),
  signers: new Map<string, ClientSigner>(),
  files: new Map<string, string>(),
})

export const NO_CLIENTS: ClientTable = { rows: [], ...emptyTables() }

const checkSchema = schemaCheck(schema)
const SECRET = /whsec_[^"\s]+/giu

interface Draft {
  readonly json: JsonFile<Written<typeof CLIENTS_FILE>>
  readonly sources: SecretSources
  readonly tables: ReturnType<typeof emptyTables>
  /** Paths of the values seen, by kind and value. */
  readonly owners: Map<string, string>
}

/** Parses config/clients.json and reads the files that it names. No fault contains a secret. */
export function parseClients(
  file: string,
  text: string,
  { env, readFile } = THIS_MACHINE,
): Parsed<ClientTable> {
  const json = new JsonFile<Written<typeof CLIENTS_FILE>>(file, text, checkSchema, { secret: true })
  const rows = json.value?.clients
  if (!Array.isArray(rows)) return { faults: withoutSecrets(json.faults()) }
  const tables = emptyTables()
  const read = (name: string) => {
    const content = readFile(name)
    tables.files.set(name, hash('sha256', content))
    return content
  }
  const draft: Draft = { json, sources: { env, readFile: read }, tables, owners: new Map() }
  for (const [index, row] of rows.entries()) {
    if (typeof row === 'object' && row !== null) addClient(draft, `$.clients[${index}]`, row)
  }
  const faults = json.faults()
  if (faults.length > 0) return { faults: withoutSecrets(faults) }
  return { value: { rows, ...tables } }
}

/** @param file gateway.json */
export function webhookClientFaults(
  file: string,
  routes: readonly (Pick<Route, 'webhookClient'> & Partial<Pick<Route, 'laidAt'>>)[],
  { byWebhookClient }: Pick<ClientTable, 'byWebhookClient'>,
): Fault[] {
  return keyFaults(file, routes, ({ webhookClient: client }) => {
    if (client === undefined || byWebhookClient.has(client)) return undefined
    const reason = `names no client of clients.json with "hmac": ${JSON.stringify(client)}`
    return { key: 'webhookClient', reason }
  })
}

/** Adds a valid client to the tables. Conflicts in the valid parts of an invalid client are reported too. */
function addClient(draft: Draft, at: string, row: ClientRow): void {
  const { json } = draft
  if (json.sound(`${at}.id`)) claim(draft, `${at}.id`, 'id', row.id)
  const identity = identityOf(draft, `${at}.mtls`, row.mtls)
  const secrets = secretsOf(draft, `${at}.hmac`, row.hmac)
  const keys = signatureKeysOf(draft, `${at}.signature`, row.signature)
  if (!json.sound(at)) return
  if ((row.mtls ?? row.hmac ?? row.signature) === undefined) {
    const reason =
      'must have "mtls", "hmac" or "signature", which prove who calls; or only "plan", for an app that uses tokens'
    if (row.plan === undefined) json.refuse({ path: at, reason })
    else if (row.scopes.length > 0)
      json.refuse({
        path: `${at}.scopes`,
        reason: 'must not be set: the scopes of an app are those of its token',
      })
  }
  if (row.signature !== undefined && keys !== undefined) {
    const profile = profileOf(row.signature)
    draft.tables.signers.set(row.id, { principal: principalOf(row, 'signature'), profile, keys })
  }
  if (row.plan !== undefined) draft.tables.plans.set(row.id, row.plan)
  identity?.table.set(identity.key, principalOf(row, 'mtls'))
  if (row.mtls?.psd2Roles === true) draft.tables.withPsd2Roles.add(row.id)
  readIssuers(draft, `${at}.mtls`, row)
  if (row.hmac === undefined) return
  const { keyId, scheme } = row.hmac
  const name = keyId ?? `client:${row.id}`
  const key = { name, scheme: schemeOf(scheme), principal: principalOf(row, 'hmac'), secrets }
  if (keyId !== undefined) draft.tables.byKeyId.set(keyId, key)
  draft.tables.byWebhookClient.set(row.id, key)
}

const IDENTITIES = ['thumbprint', 'sanDns', 'sanUri', 'subject', 'organizationIdentifier']
const ONE_IDENTITY = `must have exactly one of ${IDENTITIES.map((kind) => `"${kind}"`).join(', ')}`
const THUMBPRINT = /^[0-9A-Fa-f]{2}(?::?[0-9A-Fa-f]{2}){31}$/

function readIssuers({ json, tables }: Draft, at: string, { id, mtls }: ClientRow): void {
  if (mtls?.issuer === undefined) return
  const issuers = [mtls.issuer].flat().map(canonicalIssuer)
  tables.issuers.set(
    id,
    issuers.filter((issuer) => issuer !== undefined),
  )
  for (const [index, issuer] of issuers.entries()) {
    if (issuer !== undefined) continue
    const path = Array.isArray(mtls.issuer) ? `${at}.issuer[${index}]` : `${at}.issuer`
    const reason =
      'must be the subject of an authority, such as "CN=Bank B CA,O=Bank B", or its SHA-256 thumbprint'
    json.refuse({ path, reason })
  }
}

function canonicalIssuer(issuer: string): string | undefined {
  return THUMBPRINT.test(issuer) ? plainHex(issuer) : canonicalName(issuer)
}

function plainHex(thumbprint: string): string {
  return thumbprint.replaceAll(':', '').toLowerCase()
}

/** Hides secrets in `path` and `reason`. `at` has no line of the file, because the file is read as `secret`. */
function withoutSecrets(faults: readonly Fault[]): readonly Fault[] {
  return faults.map(({ path, reason, ...rest }) => ({
    ...rest,
    path: path.replace(SECRET, 'whsec_…'),
    reason: reason.replace(SECRET, 'whsec_…'),
  }))
}

function identityOf(draft: Draft, at: string, mtls: ClientRow['mtls']) {
  const { json, tables } = draft
  if (mtls === undefined || !json.sound(at)) return undefined
  if (IDENTITIES.filter((kind) => kind in mtls).length !== 1) {
    json.refuse({ path: at, reason: ONE_IDENTITY })
    return undefined
  }
  const own = (kind: string, key: string, table: Map<string, Principal>) => {
    claim(draft, `${at}.${kind}`, kind, key)
    return { key, table }
  }
  const { thumbprint, sanDns, sanUri, organizationIdentifier, subject: name = '' } = mtls
  if (thumbprint !== undefined) return own('thumbprint', plainHex(thumbprint), tables.byThumbprint)
  if (sanDns !== undefined) return own('sanDns', sanDns.toLowerCase(), tables.bySanDns)
  if (sanUri !== undefined) return own('sanUri', sanUri, tables.bySanUri)
  if (organizationIdentifier !== undefined)
    return own('organizationIdentifier', organizationIdentifier, tables.byOrganization)
  const subject = canonicalName(name)
  if (subject !== undefined) return own('subject', subject, tables.bySubject)
  json.refuse({ path: `${at}.subject`, reason: 'must be a name such as "CN=bank-b,O=Bank B,C=DE"' })
  return undefined
}

function secretsOf(draft: Draft, at: string, hmac: ClientRow['hmac']): KeyObject[] {
  const { json } = draft
  const secrets: KeyObject[] = []
  if (!json.sound(`${at}.secrets`) || hmac === undefined) return secrets
  const { keyId, scheme } = hmac
  if (keyId !== undefined && json.sound(`${at}.keyId`)) claim(draft, `${at}.keyId`, 'keyId', keyId)
  if (!json.sound(`${at}.scheme`)) return secrets
  if (typeof scheme === 'object') {
    const fault = schemeFault(scheme)
    if (fault !== undefined) json.refuse({ path: `${at}.scheme.${fault.key}`, reason: fault.reason })
  }
  const { secretForm } = schemeOf(scheme)
  for (const [index, place] of hmac.secrets.entries()) {
    const path = `${at}.secrets[${index}]`
    const { secret, reason } = readSecret(place, secretForm, draft.sources)
    if (secret === undefined) {
      json.refuse({ path, reason })
      continue
    }
    // Standard Webhooks, "Additional considerations": with a common secret each client could sign as the other.
    claim(draft, path, 'secret', secret.export().toString('base64'))
    secrets.push(secret)
  }
  return secrets
}

/** Reads where the client's keys are. Two clients may not have the same keys, or each could sign as the other. */
function signatureKeysOf(
  draft: Draft,
  at: string,
  signature: ClientRow['signature'],
): ClientSigner['keys'] | undefined {
  const { json, sources } = draft
  if (signature === undefined || !json.sound(at)) return undefined
  const { jwksUri, jwksFile } = signature
  const fault = profileFault(signature)
  if (fault !== undefined) json.refuse({ path: at + fault.part, reason: fault.reason })
  if ((jwksUri === undefined) === (jwksFile === undefined)) {
    json.refuse({ path: at, reason: 'must have either "jwksUri" or "jwksFile"' })
    return undefined
  }
  const [key, uri] = jwksFile === undefined ? ['jwksUri', jwksUri ?? ''] : ['jwksFile', jwksFile]
  claim(draft, `${at}.${key}`, key, uri)
  if (jwksFile === undefined) {
    json.check(`${at}.jwksUri`, uri, privateUrlFault)
    return { uri }
  }
  const { text, reason } = namedText(uri, sources.readFile)
  const document = text === undefined ? undefined : jwkSetIn(text)
  if (document === undefined)
    json.refuse({ path: `${at}.jwksFile`, reason: reason ?? 'names a file that is no JWK Set' })
  return { uri, document }
}

function jwkSetIn(text: string): object | undefined {
  const document = parsedJson(text) as { readonly keys?: unknown } | null | undefined
  return Array.isArray(document?.keys) ? (document as object) : undefined
}

function claim({ json, owners }: Draft, path: string, kind: string, value: string): void {
  const key = `${kind}\0${value}`
  const owner = owners.get(key)
  owners.set(key, owner ?? path)
  if (owner === undefined) return
  const reason = kind === 'secret' ? `holds the same secret as ${owner}` : `is the same ${kind} as ${owner}`
  json.refuse({ path, reason })
}

/** Limits count all credentials of a client together. */
function principalOf({ id, scopes }: ClientRow, method: 'mtls' | 'hmac' | 'signature'): Principal {
  return Object.freeze({
    method,
    subject: undefined,
    client: id,
    session: undefined,
    sessionName: undefined,
    expiresAtMs: undefined,
    scopes: new Set(scopes),
    scope: scopes.join(' '),
    ...keysOf(`client:${id}`),
  } satisfies Principal)
}
