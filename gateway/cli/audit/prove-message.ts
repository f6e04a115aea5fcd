import { logDirectory } from '../../audit/seals/tiles.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import type { VerificationKey } from '../../auth/keys/verification-key.ts'
import type { SignatureFacts } from '../../auth/signatures/presented-signatures.ts'
import { sealFault } from '../../evidence/line-proofs.ts'
import { type AuditLine, textOf } from '../../evidence/records/audit-line.ts'
import { findRecords } from '../../evidence/records/find-records.ts'
import {
  bodyFault,
  keyIn,
  readRequest,
  readResponse,
  signatureBorne,
  signatureFault,
  signatureIn,
} from '../../evidence/signed-message.ts'
import type { TrustedKey } from '../../evidence/verify/trusted-key.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import { Checks, EXIT, type Given, printJson } from '../command.ts'
import { ableTo, keyNamed, Progress, trailsNamed } from './trail-words.ts'

const MESSAGE_MAX_BYTES = 64 * 1024 * 1024

interface Recorded {
  readonly segments: readonly Segment[]
  readonly directory: string
  readonly line: Buffer
  readonly record: AuditLine
  readonly signature: SignatureFacts | undefined
}

/** Checks that the client signed a message, or the gateway its response, and prints each check. Returns the exit code. */
export async function proveMessage(given: Given, request: string, file: string): Promise<number> {
  const { json, response: responseFile } = given.flags
  const key = await ableTo(() => keyNamed(given.flags))
  const read = (path: string) => ableTo(() => readRegularFile(path, MESSAGE_MAX_BYTES))
  const message = await read(file)
  const response = responseFile === undefined ? undefined : await read(responseFile)
  const checks = new Checks(json !== undefined)
  const found = await recorded(given, request, { message, response })
  const signed = await prove(found, { key, message, response, checks })
  const isProven = signed !== undefined
  if (json !== undefined) printJson({ proven: isProven, checks: checks.checks, signed })
  else checks.say(isProven ? 'proven' : 'NOT PROVEN')
  return isProven ? EXIT.good : EXIT.fault
}

interface Messages {
  readonly message: Buffer
  readonly response: Buffer | undefined
}

/** Clients may repeat an id: the record whose signature is in the message counts, else the first. */
async function recorded(
  { words, flags }: Given,
  request: string,
  { message, response }: Messages,
): Promise<Recorded | undefined> {
  const type = response === undefined ? 'API_REQUEST' : 'API_RESPONSE'
  const bytes = response ?? message
  const search = { filter: { request }, everywhere: flags.everywhere !== undefined }
  const progress = new Progress('searching')
  let found: Recorded | undefined
  for (const { auditFile, segments } of await trailsNamed(words)) {
    const directory = flags.log ?? logDirectory(auditFile)
    const onRecord = (line: Buffer, record: AuditLine) => {
      const signature = signatureIn(record)
      const isMeant = found === undefined || (signature !== undefined && bytes.includes(signature.value))
      if (record.type === type && isMeant)
        found = { segments, directory, line: Buffer.from(line), record, signature }
    }
    await ableTo(() => findRecords(segments, search, { onRecord, onRead: progress.show }))
    progress.clear()
  }
  return found
}

interface Terms extends Messages {
  readonly key: TrustedKey
  readonly checks: Checks
}

/** Returns who signed what, and when; undefined when a check failed. */
async function prove(
  found: Recorded | undefined,
  { key, checks, ...messages }: Terms,
): Promise<object | undefined> {
  const cause =
    found === undefined
      ? 'no record of this id is in the trail'
      : await ableTo(() => sealFault(found.directory, found.line, key))
  if (!checks.passes('record', cause) || found === undefined) return undefined
  const { record, signature: facts } = found
  if (!checks.passes('signed', facts ? undefined : 'the record has no signature') || !facts) return undefined
  const client = messages.response === undefined ? record.clientId : undefined
  const signer = await signerKey(found, { client, facts, key })
  if (!checks.passes('key', typeof signer === 'string' ? signer : undefined) || typeof signer === 'string')
    return undefined
  const { sent, fault } = sentAs(record, messages)
  if (!checks.passes('message', fault) || sent === undefined) return undefined
  const bearer = sent.response ?? sent.request
  if (!checks.passes('body', bodyFault(bearer, facts))) return undefined
  const { signature, fault: notBorne } = signatureBorne(bearer, facts)
  const wrong = notBorne ?? signatureFault(sent, signature, { facts, key: signer })
  if (!checks.passes('signature', wrong) || signature === undefined) return undefined
  const signed = {
    by: client === undefined ? 'the gateway' : `client ${textOf(client)}`,
    keyId: facts.keyId,
    thumbprint: facts.thumbprint,
    algorithm: facts.algorithm,
    created: new Date(Number(signature.created) * 1000).toISOString(),
    received: textOf(record.timestamp),
    covers: signature.components.map(({ text }) => text).join(' ') || 'the body',
  }
  checks.say(`      ${signed.by}, key ${facts.keyId}, ${facts.algorithm} ${facts.thumbprint}`)
  checks.say(`      signed ${signed.created}, received ${signed.received}`)
  checks.say(`      covers ${signed.covers}, and nothing else of the head`)
  return signed
}

function sentAs({ method, statusCode }: AuditLine, messages: Messages) {
  const { request, fault } = readRequest(messages.message)
  if (request === undefined) return { fault }
  if (request.method !== method) return { fault: `its method is not ${textOf(method)}` }
  if (messages.response === undefined) return { sent: { request, response: undefined } }
  const { response, fault: malformed } = readResponse(messages.response)
  if (response === undefined) return { fault: `in the response: ${malformed}` }
  return response.status === statusCode
    ? { sent: { request, response } }
    : { fault: `the status of the response is not ${textOf(statusCode)}` }
}

interface Owner {
  /** The client's id; undefined for the gateway. */
  readonly client: unknown
  readonly facts: SignatureFacts
  readonly key: TrustedKey
}

/** Returns the key from the trail, or why there is none. */
async function signerKey(
  { segments, directory }: Recorded,
  { client, facts, key }: Owner,
): Promise<VerificationKey | string> {
  const lines = new Map<string, VerificationKey>()
  const onRecord = (line: Buffer, record: AuditLine) => {
    const found = record.clientId === client ? keyIn(record, facts) : undefined
    if (found !== undefined) lines.set(line.toString('latin1'), found)
  }
  await ableTo(() => findRecords(segments, { filter: { thumbprint: facts.thumbprint } }, { onRecord }))
  const owner = client === undefined ? 'the gateway' : textOf(client)
  let fault = `no SIGNER_KEY of ${owner} with the thumbprint ${facts.thumbprint} is in the trail`
  for (const [line, found] of lines) {
    const cause = await ableTo(() => sealFault(directory, Buffer.from(line, 'latin1'), key))
    if (cause === undefined) return found
    fault = `SIGNER_KEY: ${cause}`
  }
  return fault
}
