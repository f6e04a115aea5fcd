import { setFlagsFromString } from 'node:v8'

/**
 * Makes V8 compile WebAssembly only once, so that PGlite starts with two thirds of the CPU. The options are set late
 * and taken back at exit, because V8 rejects cached code that was compiled with other options.
 */
const OPTIONS = ['wasm-tier-up', 'wasm-dynamic-tiering']
const { WebAssembly: own } = globalThis as unknown as {
  WebAssembly: { instantiate: (...given: unknown[]) => unknown }
}
const { instantiate } = own

own.instantiate = (...given) => {
  for (const option of OPTIONS) setFlagsFromString(`--no-${option}`)
  return instantiate(...given)
}
process.on('exit', () => {
  for (const option of OPTIONS) setFlagsFromString(`--${option}`)
})
