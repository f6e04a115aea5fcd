import { Worker } from 'node:worker_threads'
import type { Fault, Parsed } from '../../config/faults.ts'
import type { ParseFile } from '../../config/load-file.ts'
import { type Reread, type RereadOptions, rereadSettings } from '../../config/reload/reread-settings.ts'
import { messageOf } from '../../terminal/printable.ts'

export type Kind = 'limits' | 'clients'

export type ParseJob =
  | { readonly kind: Kind; readonly file: string; readonly text: string }
  | { readonly kind: 'settings'; readonly options: RereadOptions }

/** Longer texts are parsed in a thread, which takes 50 ms to start, so that requests need not wait. */
const SMALL_LENGTH = 32 * 1024
/** If a text needs more, only the parsing thread ends. */
const MAX_HEAP_MB = 1024
/** The main thread has no larger stack, and at the next start it must parse what passes here. */
const STACK_MB = 1
const SCRIPT = new URL(`./parse-thread.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url)

export function parseApart<T>(
  kind: Kind,
  parse: ParseFile<T>,
): (file: string, text: string) => Promise<Parsed<T>> {
  return async (file, text) =>
    text.length <= SMALL_LENGTH
      ? parse(file, text)
      : inThread<Parsed<T>>({ kind, file, text }, (why) => ({ faults: [unread(file, why)] }))
}

export async function rereadApart(options: RereadOptions): Promise<Reread> {
  const { text, running } = options
  // Descriptions of APIs are seldom short, and compiling their schemas takes time.
  if (text.length <= SMALL_LENGTH && !text.includes('"openapi"')) return rereadSettings(options)
  return inThread<Reread>({ kind: 'settings', options }, (why) => ({
    parsed: { faults: [unread(running.configFile, why)] },
    texts: undefined,
  }))
}

function unread(file: string, why: string): Fault {
  return { file, path: '$', reason: `cannot be read: ${why}` }
}

function inThread<T>(job: ParseJob, failure: (why: string) => T): Promise<T> {
  const { promise, resolve } = Promise.withResolvers<T>()
  const failed = (why: unknown) => resolve(failure(messageOf(why)))
  try {
    const thread = new Worker(SCRIPT, {
      workerData: job,
      name: 'parse',
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB, stackSizeMb: STACK_MB },
    })
    thread.on('message', resolve)
    thread.on('error', failed)
    thread.on('exit', (code) => failed(`its thread ended with ${code}`))
  } catch (error) {
    // The system may allow no further thread.
    failed(error)
  }
  return promise
}
