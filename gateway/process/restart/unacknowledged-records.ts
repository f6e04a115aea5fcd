import { Commit } from '../../audit/commit/commit.ts'

/** Audit records that another process or thread is to write, until it has said how that went. */
export class UnacknowledgedRecords {
  readonly #send: (id: number, lines: readonly string[]) => boolean
  readonly #commits = new Map<number, Commit>()
  #lastId = 0

  /** @param send returns false when the other is gone */
  constructor(send: (id: number, lines: readonly string[]) => boolean) {
    this.#send = send
  }

  record(lines: readonly string[]): Commit {
    const commit = new Commit()
    const id = ++this.#lastId
    this.#commits.set(id, commit)
    if (!this.#send(id, lines))
      setImmediate(() => this.acknowledge(id, 'the process that has the audit trail has ended'))
    return commit
  }

  /** @param fault why they were not written */
  acknowledge(id: number, fault: string | undefined): void {
    const commit = this.#commits.get(id)
    this.#commits.delete(id)
    commit?.finish(fault === undefined ? undefined : new Error(fault))
  }

  /** The other has ended. */
  giveUp(fault: string): void {
    for (const id of [...this.#commits.keys()]) this.acknowledge(id, fault)
  }
}
