import { Worker } from 'node:worker_threads'
import type { Parsed } from '../config/faults.ts'
import type { ParseFile } from '../config/load-file.ts'
import type { ParseApart } from '../config/reload/reloader.ts'

/** The files that a thread can read. */
export type Kind = 'limits' | 'clients'

export interface ParseJob {
  readonly kind: Kind
  readonly file: string
  readonly text: string
}

/** Up to here reading takes less than 10 ms; to begin a thread takes some 50 ms, of another processor. */
const SMALL_LENGTH = 32 * 1024
/** Beyond it only the thread ends. */
const MAX_HEAP_MB = 1024
const SCRIPT = new URL(`./parse-thread.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url)

/** Reads large texts in a thread of their own, so that no request waits for that. */
export function parseApart<T>(kind: Kind, parse: ParseFile<T>): ParseApart<T> {
  return async (file, text) =>
    text.length <= SMALL_LENGTH ? parse(file, text) : inThread<T>({ kind, file, text })
}

function inThread<T>(job: ParseJob): Promise<Parsed<T>> {
  const { promise, resolve } = Promise.withResolvers<Parsed<T>>()
  const thread = new Worker(SCRIPT, {
    workerData: job,
    name: 'parse',
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
  })
  const failed = (why: string) =>
    resolve({ faults: [{ file: job.file, path: '$', reason: `cannot be read: ${why}` }] })
  thread.on('message', resolve)
  thread.on('error', (error: unknown) => failed(error instanceof Error ? error.message : String(error)))
  // Without effect when it has said what it found.
  thread.on('exit', (code) => failed(`its thread ended with ${code}`))
  return promise
}
