import { setFlagsFromString } from 'node:v8'

/**
 * Has V8 compile WebAssembly once, and not again to run faster: PGlite starts with two thirds of the CPU. Given with the command
 * line, these options would keep V8 from using what Node, or a process before, has compiled; at the end they are taken back for
 * the same reason.
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
