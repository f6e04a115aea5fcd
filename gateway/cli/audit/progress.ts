/** How far a command is, on a terminal (standard error); nothing elsewhere. */
export class Progress {
  readonly #verb: string
  readonly #beganMs = performance.now()
  #shownMs = 0
  #isShown = false

  /** @param verb what the command does: `reading`. */
  constructor(verb: string) {
    this.#verb = verb
  }

  /** Shown at most ten times a second, and not before half a second has passed. */
  readonly show = (done: number, total: number): void => {
    const nowMs = performance.now()
    if (!process.stderr.isTTY || nowMs - this.#beganMs < 500 || nowMs - this.#shownMs < 100) return
    this.#shownMs = nowMs
    this.#isShown = true
    const share = total === 0 ? 1 : Math.min(1, done / total)
    const bar = '█'.repeat(Math.round(share * 30)).padEnd(30, '░')
    const leftSeconds = share === 0 ? 0 : Math.ceil(((nowMs - this.#beganMs) / share / 1000) * (1 - share))
    const megabytes = `${Math.round(done / 1e6)} of ${Math.round(total / 1e6)} MB`
    process.stderr.write(
      `\r${this.#verb} ${bar} ${Math.floor(share * 100)} %, ${megabytes}, ${leftSeconds} s left\u001b[K`,
    )
  }

  /** Before anything else is written. */
  clear(): void {
    if (this.#isShown) process.stderr.write('\r\u001b[K')
    this.#isShown = false
  }
}
