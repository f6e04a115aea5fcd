export type OnCommitted = (error: Error | undefined) => void

/** Records that are committed together. One object is cheaper than a promise for each. */
export class Commit {
  readonly #listeners: OnCommitted[] = []

  whenDone(run: OnCommitted): void {
    this.#listeners.push(run)
  }

  finish(error: Error | undefined): void {
    for (const run of this.#listeners.splice(0)) run(error)
  }
}

export type Group = { readonly lines: readonly string[]; readonly commit: Commit }

/** Decides when lines are written, and when a request may go on. */
export interface CommitPolicy {
  add(line: string): Commit | undefined
  readonly uncommitted: number
  /** Writes waiting lines now; `synced` leaves them for the next commit. */
  flush(): void
  close(): Group
}
