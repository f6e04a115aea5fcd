import { X509Certificate } from 'node:crypto'
import { statSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import type { StampsSettings, WitnessesSettings } from '../../config/witness-settings.ts'
import { createSender } from '../../outgoing/sender.ts'
import { readCheckpoint } from '../seals/checkpoint.ts'
import { cosignatureVerifier } from '../seals/cosignature.ts'
import { parseVerifierKey } from '../seals/signed-note.ts'
import { checkpointFile } from '../seals/tiles.ts'
import type { Progress } from './paced-rounds.ts'
import { StampRounds } from './stamps/stamp-rounds.ts'
import { WitnessClient, type WitnessFailure } from './witness-client.ts'
import { WitnessRounds } from './witness-rounds.ts'

export interface AttestJob {
  readonly directory: string
  readonly witnesses: WitnessesSettings | undefined
  readonly stamps: StampsSettings | undefined
}

/** Messages of the thread. The only message to the thread says how many milliseconds its last round may take. */
export type AttestNews =
  | { readonly type: 'witnessed'; readonly progress: Progress }
  | { readonly type: 'stamped'; readonly progress: Progress }
  | { readonly type: 'cosigned'; readonly witness: string }
  | {
      readonly type: 'witness-fault'
      readonly witness: string | undefined
      readonly failure: WitnessFailure | 'internal'
      readonly cause: string
    }
  | { readonly type: 'stamp-fault'; readonly cause: string }

const LOOK_MS = 1000

const { directory, witnesses, stamps } = workerData as AttestJob
const cosigned = witnesses && witnessRounds(witnesses)
const rounds = [cosigned, stamps && stampRounds(stamps)]
const file = checkpointFile(directory)
let seen = ''
let unread = ''

setInterval(look, LOOK_MS)
look()
parentPort?.on('message', async (ms: number) => {
  look()
  await cosigned?.finish(AbortSignal.timeout(ms))
  process.exit()
})

/** Looks for a new checkpoint, which replaces the file of the previous one. */
function look(): void {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found === undefined) return
  const name = `${found.ino} ${found.mtimeMs}`
  if (name === seen) return
  try {
    const { size } = readCheckpoint(file)
    seen = name
    for (const one of rounds) one?.sealed(size)
  } catch (error) {
    if (name === unread) return
    unread = name
    const cause = `the checkpoint ${file} cannot be read: ${(error as Error).message}`
    if (witnesses === undefined) tell({ type: 'stamp-fault', cause })
    else tell({ type: 'witness-fault', witness: undefined, failure: 'internal', cause })
  }
}

function witnessRounds({ members, quorum, everyMs }: WitnessesSettings): WitnessRounds {
  const clients = members.map(({ url, key, ca }) => {
    const send = createSender({ url: `${url}/add-checkpoint`, ca })
    return new WitnessClient(cosignatureVerifier(parseVerifierKey(key)), send)
  })
  return new WitnessRounds({
    directory,
    clients,
    quorum,
    everyMs,
    reports: {
      progress: (progress) => tell({ type: 'witnessed', progress }),
      cosigned: (witness) => tell({ type: 'cosigned', witness }),
      fault: (witness, failure, cause) => tell({ type: 'witness-fault', witness, failure, cause }),
    },
  })
}

function stampRounds({ url, everyMs, authorities, ca, policy }: StampsSettings): StampRounds {
  return new StampRounds({
    directory,
    send: createSender({ url, ca }),
    authorities: authorities.map((pem) => new X509Certificate(pem)),
    policy,
    everyMs,
    reports: {
      progress: (progress) => tell({ type: 'stamped', progress }),
      fault: (cause) => tell({ type: 'stamp-fault', cause }),
    },
  })
}

function tell(news: AttestNews): void {
  parentPort?.postMessage(news)
}
