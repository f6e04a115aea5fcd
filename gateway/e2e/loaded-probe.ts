import { subscribe } from 'node:diagnostics_channel'
import { writeFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import type { Server } from 'node:net'
import { isMainThread } from 'node:worker_threads'

/** What the process had loaded when it last opened a listener, or when it ended by itself. */
export interface Loaded {
  /** URLs of files. */
  readonly files: readonly string[]
  /** Node's own modules, by Node's names. */
  readonly builtins: readonly string[]
}

/** Missing in Node's types. */
const { moduleLoadList: builtins } = process as NodeJS.Process & {
  readonly moduleLoadList: readonly string[]
}
const files: string[] = []

registerHooks({
  load: (url, context, next) => {
    if (url.startsWith('file:')) files.push(url)
    return next(url, context)
  },
})

/**
 * Loaded before a program (`--import`), writes what the program had loaded when it last opened a port, and again when it
 * exits, into the file that `LOADED_FILE` names.
 */
subscribe('tracing:net.server.listen:asyncEnd', (message) => {
  const { server } = message as { readonly server: Server }
  // The control socket is opened when the gateway serves already, and fetches keys.
  if (typeof server.address() !== 'string') write()
})
process.on('exit', write)

function write(): void {
  if (!isMainThread) return
  const loaded: Loaded = { files, builtins }
  writeFileSync(process.env.LOADED_FILE ?? '', JSON.stringify(loaded))
}
