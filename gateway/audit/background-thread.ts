import { type ResourceLimits, Worker } from 'node:worker_threads'

/** With these limits, input from others can exhaust only the memory of the thread. */
export const THREAD_LIMITS: ResourceLimits = {
  // With less than 32 MiB (the space for young objects) free below this limit, V8 marks old objects without end.
  maxOldGenerationSizeMb: 128,
}

interface BackgroundThreadOptions<News> {
  readonly script: string
  readonly job: object
  readonly resourceLimits?: ResourceLimits
  onNews(news: News): void
  onFault(cause: string): void
  onStart?(): void
  onExit?(): void
}

const FIRST_RESTART_MS = 1000
const MAX_RESTART_MS = 60_000

/** A thread that does not keep the process alive, and that starts again after it has died. */
export class BackgroundThread<Message, News> {
  readonly #options: BackgroundThreadOptions<News>
  #worker: Worker | undefined
  #restart: NodeJS.Timeout | undefined
  #restartMs = FIRST_RESTART_MS
  #isFinishing = false

  constructor(options: BackgroundThreadOptions<News>) {
    this.#options = options
  }

  get isRunning(): boolean {
    return this.#worker !== undefined
  }

  start(): void {
    const { script, job, resourceLimits, onNews, onFault, onStart, onExit } = this.#options
    const file = new URL(`./${script}.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url)
    const startedMs = performance.now()
    this.#isFinishing = false
    let worker: Worker
    try {
      worker = new Worker(file, { workerData: job, name: script, ...(resourceLimits && { resourceLimits }) })
    } catch (error) {
      // The system may have no room for another thread (EAGAIN).
      onFault(`the thread ${script} cannot be started: ${(error as Error).message}`)
      this.#startLater()
      return
    }
    worker.on('message', onNews)
    worker.on('error', (error: Error) => onFault(`the thread ${script} has died: ${error.message}`))
    worker.on('exit', () => {
      this.#worker = undefined
      onExit?.()
      if (this.#isFinishing) return
      if (performance.now() - startedMs >= MAX_RESTART_MS) this.#restartMs = FIRST_RESTART_MS
      this.#startLater()
    })
    // `unref` comes after the listeners, which keep the process alive too.
    worker.unref()
    this.#worker = worker
    onStart?.()
  }

  #startLater(): void {
    this.#restart = setTimeout(() => this.start(), this.#restartMs).unref()
    this.#restartMs = Math.min(MAX_RESTART_MS, this.#restartMs * 2)
  }

  post(message: Message, transfer: ArrayBuffer[] = []): void {
    this.#worker?.postMessage(message, transfer)
  }

  /** @param hurry ends the wait @returns false when the thread had to be terminated */
  async finish(message: Message, withinMs: number, hurry?: Promise<void>): Promise<boolean> {
    const worker = this.#worker
    this.#isFinishing = true
    clearTimeout(this.#restart)
    if (worker === undefined) return true
    const { promise, resolve } = Promise.withResolvers<boolean>()
    worker.once('exit', () => resolve(true))
    void hurry?.then(() => resolve(true))
    const deadline = setTimeout(resolve, withinMs, false)
    worker.postMessage(message)
    const isInTime = await promise
    clearTimeout(deadline)
    if (!isInTime) await worker.terminate()
    return isInTime
  }
}
