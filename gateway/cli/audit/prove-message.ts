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
  signatureBorne,
  signatureFault,
  signatureIn,
} from '../../evidence/signed-message.ts'
import type { TrustedKey } from '../../evidence/verify/trusted-key.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import { Checks } from '../checks.ts'
import { EXIT, type Given, printJson } from '../command.ts'
import { ableTo, keyNamed, Progress, trailsNamed } from './trail-words.ts'

const MESSAGE_MAX_BYTES = 64 * 1024 * 1024

interface Recorded {
  readonly segments: readonly Segment[]
  /** Of the log. */
  readonly directory: string
  readonly line: Buffer
  readonly record: AuditLine
  readonly signature: SignatureFacts | undefined
}

/** Says whether the client of a request has signed the message in a file, or which check fails. */
export async function proveMessage(given: Given, request: string, file: string): Promise<number> {
  const key = await ableTo(() => keyNamed(given.flags))
  const message = await ableTo(() => readRegularFile(file, MESSAGE_MAX_BYTES))
  const isJson = given.flags.json !== undefined
  const checks = new Checks(isJson)
  const signed = await prove(await recorded(given, request, message), { key, message, checks })
  const isProven = signed !== undefined
  if (isJson) printJson({ proven: isProven, checks: checks.checks, signed })
  else checks.say(isProven ? 'proven' : 'NOT PROVEN')
  return isProven ? EXIT.good : EXIT.fault
}

/** Clients may repeat an id: it is the request whose signature stands in the message, else the first. */
async function recorded(
  { words, flags }: Given,
  request: string,
  message: Buffer,
): Promise<Recorded | undefined> {
  const search = { filter: { request }, everywhere: flags.everywhere !== undefined }
  const progress = new Progress('searching')
  let found: Recorded | undefined
  for (const { auditFile, segments } of await trailsNamed(words)) {
    const directory = flags.log ?? logDirectory(auditFile)
    const onRecord = (line: Buffer, record: AuditLine) => {
      const signature = signatureIn(record)
      const isMeant = found === undefined || (signature !== undefined && message.includes(signature.value))
      if (record.type === 'API_REQUEST' && isMeant)
        found = { segments, directory, line: Buffer.from(line), record, signature }
    }
    await ableTo(() => findRecords(segments, search, { onRecord, onRead: progress.show }))
    progress.clear()
  }
  return found
}

interface Terms {
  readonly key: TrustedKey
  readonly message: Buffer
  readonly checks: Checks
}

/** @returns who has signed what, and when; undefined when a check has failed */
async function prove(
  found: Recorded | undefined,
  { key, message, checks }: Terms,
): Promise<object | undefined> {
  const cause =
    found === undefined
      ? 'no API_REQUEST of this id is in the trail'
      : await ableTo(() => sealFault(found.directory, found.line, key))
  if (!checks.passes('record', cause) || found === undefined) return undefined
  const { record, signature: facts } = found
  if (!checks.passes('signed', facts ? undefined : 'the record has no signature') || !facts) return undefined
  const signer = await signerKey(found, facts, key)
  if (!checks.passes('key', typeof signer === 'string' ? signer : undefined) || typeof signer === 'string')
    return undefined
  const { request, fault } = readRequest(message)
  const method = request?.method === record.method ? undefined : `its method is not ${textOf(record.method)}`
  if (!checks.passes('message', fault ?? method) || request === undefined) return undefined
  if (!checks.passes('body', bodyFault(request, facts))) return undefined
  const borne = signatureBorne(request, facts)
  const { signature } = borne
  const wrong = borne.fault ?? signatureFault(request, borne.signature, { facts, key: signer })
  if (!checks.passes('signature', wrong) || signature === undefined) return undefined
  const signed = {
    client: textOf(record.clientId),
    keyId: facts.keyId,
    thumbprint: facts.thumbprint,
    algorithm: facts.algorithm,
    created: new Date(Number(signature.created) * 1000).toISOString(),
    received: textOf(record.timestamp),
    covers: signature.components.map(({ text }) => text).join(' '),
  }
  checks.say(`      client ${signed.client}, key ${facts.keyId}, ${facts.algorithm} ${facts.thumbprint}`)
  checks.say(`      signed ${signed.created}, received ${signed.received}`)
  checks.say(`      covers ${signed.covers}, and nothing else of the head`)
  return signed
}

/** The key as the trail has it, or why it has none. */
async function signerKey(
  { segments, directory, record: { clientId } }: Recorded,
  facts: SignatureFacts,
  key: TrustedKey,
): Promise<VerificationKey | string> {
  const lines = new Map<string, VerificationKey>()
  const onRecord = (line: Buffer, record: AuditLine) => {
    const found = record.clientId === clientId ? keyIn(record, facts) : undefined
    if (found !== undefined) lines.set(line.toString('latin1'), found)
  }
  await ableTo(() => findRecords(segments, { filter: { thumbprint: facts.thumbprint } }, { onRecord }))
  let fault = `no SIGNER_KEY of ${textOf(clientId)} with the thumbprint ${facts.thumbprint} is in the trail`
  for (const [line, found] of lines) {
    const cause = await ableTo(() => sealFault(directory, Buffer.from(line, 'latin1'), key))
    if (cause === undefined) return found
    fault = `SIGNER_KEY: ${cause}`
  }
  return fault
}
