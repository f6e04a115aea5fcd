import type { Send } from '../../outgoing/sender.ts'
import { type Checkpoint, readCheckpoint } from '../seals/checkpoint.ts'
import { consistencyProof } from '../seals/proofs.ts'
import {
  NoteFault,
  type NoteSignature,
  type NoteVerifier,
  parseNote,
  verifiedSignatures,
} from '../seals/signed-note.ts'
import { checkpointFile, TileReader } from '../seals/tiles.ts'

/** `unprovable`: a tile is missing. `conflict`: the witness has seen a tree that our tree does not continue. */
export type WitnessFailure = 'unreachable' | 'refused' | 'invalid' | 'unprovable' | 'conflict'

export class WitnessFault extends Error {
  readonly failure: WitnessFailure

  constructor(failure: WitnessFailure, message: string) {
    super(message)
    this.failure = failure
  }
}

/** The witness has cosigned a newer checkpoint, because during a restart the other process asks too. */
export class Overtaken extends Error {}

export interface Submission {
  readonly bytes: Buffer
  readonly text: string
  readonly checkpoint: Checkpoint
  readonly directory: string
}

const HEADERS = { 'content-type': 'text/plain; charset=utf-8' }
const SIZE_LINE = /^(?:0|[1-9]\d{0,15})\n$/
/** Tries with the size that we know, then with those that the witness names. */
const MAX_TRIES = 3
const REFUSALS: Readonly<Record<number, string>> = {
  400: 'finds the request malformed',
  403: 'does not accept the signature of the log: it has another key for this origin',
  404: 'does not know the origin of the log',
}

/** Asks one witness for cosignatures: `add-checkpoint` of C2SP tlog-witness. */
export class WitnessClient {
  readonly verifier: NoteVerifier
  readonly #send: Send
  /** Size of the tree that the witness cosigned last, if known. */
  #size = 0

  constructor(verifier: NoteVerifier, send: Send) {
    this.verifier = verifier
    this.#send = send
  }

  /** @throws WitnessFault, Overtaken */
  async cosign(submission: Submission, signal: AbortSignal): Promise<NoteSignature> {
    const { size } = submission.checkpoint
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const old = this.#size <= size ? this.#size : 0
      const request = requestBody(submission, old)
      const { statusCode, body } = await this.#ask(request, signal)
      if (statusCode === 200) {
        const signature = this.#cosignatureIn(submission.text, body)
        this.#size = size
        return signature
      }
      if (statusCode !== 409) throw refusal(statusCode)
      const named = sizeIn(body)
      if (old === size && (named ?? size) === size)
        throw new WitnessFault('conflict', `has cosigned another tree of ${size} leaves`)
      if (named === undefined)
        throw new WitnessFault('invalid', 'the response does not give the size of the tree it has cosigned')
      this.#size = named
      if (this.#size > size) {
        // If the log has reached that size, another process of this gateway has asked the witness.
        if (readCheckpoint(checkpointFile(submission.directory)).size >= this.#size) throw new Overtaken()
        throw new WitnessFault(
          'conflict',
          `has cosigned a tree of ${this.#size} leaves, and this one has ${size}: leaves were removed`,
        )
      }
    }
    throw new WitnessFault('invalid', 'refuses every tree size that it names')
  }

  async #ask(body: Buffer, signal: AbortSignal) {
    try {
      return await this.#send({ method: 'POST', headers: HEADERS, body, signal })
    } catch (error) {
      throw new WitnessFault('unreachable', (error as Error).message)
    }
  }

  #cosignatureIn(text: string, body: Buffer): NoteSignature {
    try {
      const note = parseNote(Buffer.concat([Buffer.from(`${text}\n`), body]))
      // An empty line in `body` extends `note.text`.
      if (note.text !== text) throw new NoteFault('has more than signatures')
      const found = verifiedSignatures(note, [this.verifier]).get(this.verifier)
      if (found === undefined) throw new NoteFault('has no signature of its key')
      return found
    } catch (error) {
      if (!(error instanceof NoteFault)) throw error
      throw new WitnessFault('invalid', `the response ${error.message}`)
    }
  }
}

function requestBody({ bytes, checkpoint, directory }: Submission, old: number): Buffer {
  const { size } = checkpoint
  const proof = old === 0 ? [] : proofFrom(directory, old, size)
  const lines = proof.map((hash) => `${hash.toString('base64')}\n`)
  return Buffer.concat([Buffer.from(`old ${old}\n${lines.join('')}\n`), bytes])
}

function proofFrom(directory: string, old: number, size: number): readonly Buffer[] {
  try {
    return consistencyProof(new TileReader(directory, size), old, size)
  } catch (error) {
    throw new WitnessFault(
      'unprovable',
      `no proof from ${old} leaves can be made: ${(error as Error).message}`,
    )
  }
}

function sizeIn(body: Buffer): number | undefined {
  const text = body.toString('latin1')
  return SIZE_LINE.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : undefined
}

function refusal(statusCode: number): WitnessFault {
  if (statusCode === 422) {
    return new WitnessFault('conflict', 'says that the tree does not go on from the one that it has cosigned')
  }
  return new WitnessFault('refused', REFUSALS[statusCode] ?? `responds with status ${statusCode}`)
}
