import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import module from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * Loaded into every process of a run with coverage (by NODE_OPTIONS, as a copy in the folder of the run): Node strips types
 * there too, but keeps no result without its compile cache, which would make coverage inexact. Here the first process that
 * loads a file keeps what is left of it for all others, beside this file. An older Node, of npm say, goes on without.
 */
module.registerHooks?.({
  load(url, context, next) {
    if (!url.startsWith('file:') || !url.endsWith('.ts') || url.includes('/node_modules/'))
      return next(url, context)
    return { format: 'module', source: stripped(fileURLToPath(url)), shortCircuit: true }
  },
})

function stripped(path) {
  const { mtimeMs, size } = statSync(path)
  const kept = join(import.meta.dirname, 'stripped', `${path.replace(':', '')}-${mtimeMs}-${size}`)
  try {
    return readFileSync(kept, 'utf8')
  } catch {
    const source = quietly(() => module.stripTypeScriptTypes(readFileSync(path, 'utf8')))
    mkdirSync(dirname(kept), { recursive: true })
    writeFileSync(`${kept}-${process.pid}`, source)
    renameSync(`${kept}-${process.pid}`, kept)
    return source
  }
}

/** Without the warning that the function may still change, which tests would find in what programs print. */
function quietly(work) {
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    return work()
  } finally {
    process.emitWarning = emitWarning
  }
}
