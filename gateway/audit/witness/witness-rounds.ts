import type { Quorum } from '../../config/tlog-policy.ts'
import type { NoteSignature } from '../seals/signed-note.ts'
import { PacedRounds, type PacedRoundsOptions } from './paced-rounds.ts'
import {
  Overtaken,
  type Submission,
  type WitnessClient,
  type WitnessFailure,
  WitnessFault,
} from './witness-client.ts'
import { areEnough, keepWitnessed, lastWitnessed } from './witnessed-checkpoint.ts'

interface WitnessRoundsOptions extends PacedRoundsOptions {
  readonly clients: readonly WitnessClient[]
  readonly quorum: Quorum
  readonly reports: PacedRoundsOptions['reports'] & {
    cosigned(witness: string): void
    fault(witness: string | undefined, failure: WitnessFailure | 'internal', cause: string): void
  }
}

type Round = { readonly submission: Submission; readonly signatures: Map<WitnessClient, NoteSignature> }

/** Asks all witnesses at once. Keeps a checkpoint when enough have signed. */
export class WitnessRounds extends PacedRounds {
  readonly #options: WitnessRoundsOptions
  #signal = this.aborted.signal
  #round: Round | undefined
  #done: Promise<boolean> | undefined
  #onQuorum = () => {}

  constructor(options: WitnessRoundsOptions) {
    const { directory, clients, quorum } = options
    const verifiers = clients.map(({ verifier }) => verifier)
    super(options, lastWitnessed(directory, { verifiers, quorum }))
    this.#options = options
  }

  /** Has the newest checkpoint signed now, and asks nothing afterwards. */
  async finish(signal: AbortSignal): Promise<void> {
    this.close()
    await this.#done
    const { sealed, attested } = this.progress
    if (sealed === attested) return
    this.#signal = signal
    const quorum = Promise.withResolvers<void>()
    this.#onQuorum = quorum.resolve
    await Promise.race([quorum.promise, this.#begin()])
  }

  protected round(): Promise<boolean> {
    this.#done = this.#begin()
    return this.#done
  }

  protected override retry(): Promise<boolean> {
    if (this.#round === undefined) return this.round()
    this.#done = this.#ask(this.#round)
    return this.#done
  }

  async #begin(): Promise<boolean> {
    const { directory, reports } = this.#options
    this.#round = undefined
    try {
      this.#round = { submission: { ...this.newest(), directory }, signatures: new Map() }
    } catch (error) {
      reports.fault(undefined, 'internal', `the checkpoint cannot be read: ${(error as Error).message}`)
      return false
    }
    return this.#ask(this.#round)
  }

  async #ask(round: Round): Promise<boolean> {
    const { clients } = this.#options
    const missing = clients.filter((client) => !round.signatures.has(client))
    await Promise.all(missing.map((client) => this.#askOne(client, round)))
    return round.signatures.size === clients.length
  }

  async #askOne(client: WitnessClient, round: Round): Promise<void> {
    const { reports } = this.#options
    const { name } = client.verifier
    const signal = this.#signal
    try {
      const signature = await client.cosign(round.submission, signal)
      this.#keep(round, client, signature)
      reports.cosigned(name)
    } catch (error) {
      if (signal.aborted && signal === this.aborted.signal) return
      const failure = error instanceof WitnessFault ? error.failure : 'internal'
      const isOvertaken = error instanceof Overtaken
      // A full tile may have replaced a partial one, so the next try takes the newest checkpoint.
      if ((failure === 'unprovable' || isOvertaken) && this.#round === round) this.#round = undefined
      if (isOvertaken) return
      reports.fault(name, failure, (error as Error).message)
    }
  }

  /** @throws Error of the system: the witness is then asked again */
  #keep({ submission, signatures }: Round, client: WitnessClient, signature: NoteSignature): void {
    const { directory, quorum, clients } = this.#options
    const all = new Map(signatures).set(client, signature)
    const signers = [...all.keys()].map(({ verifier }) => verifier)
    if (areEnough({ quorum }, signers)) {
      const found = clients.flatMap((one) => all.get(one) ?? [])
      keepWitnessed(directory, submission.bytes, found)
      this.attested()
      this.#onQuorum()
    }
    signatures.set(client, signature)
  }
}
