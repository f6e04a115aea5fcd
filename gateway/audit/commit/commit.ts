export type OnCommitted = (error: Error | undefined) => void

/** Records that are committed together. One object for all is cheaper than a promise for each. */
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

/** When lines are written, and how far they must have got before the request goes on. */
export interface CommitPolicy {
  add(line: string): Commit | undefined
  readonly uncommitted: number
  /** Writes the waiting lines now. With `synced` it leaves them for the next commit. */
  flush(): void
  close(): Group
}
