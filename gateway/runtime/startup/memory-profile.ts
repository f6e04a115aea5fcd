import { isDeepStrictEqual } from 'node:util'
import { memoryProfileOf } from '../../config/rules/memory-profiles.ts'

/**
 * `GATEWAY_PROFILE=small`, as in `launcher/launch.mjs`. Old objects are collected when they have grown by a fifth. All threads
 * share one heap of the C library, which gives free memory back at once: that saves 16 MB.
 */
const SMALL = {
  options: ['--max-semi-space-size=4', '--heap-growing-percent=20'],
  env: { MALLOC_ARENA_MAX: '1', MALLOC_MMAP_THRESHOLD_: '32768', MALLOC_TRIM_THRESHOLD_: '65536' },
}
const YOUNG = /^--(?:min|max)[-_]semi[-_]space[-_]size=/

interface NodeStart {
  readonly options: readonly string[]
  readonly env: NodeJS.ProcessEnv
}

export function forProfile({ options, env }: NodeStart): NodeStart {
  if (memoryProfileOf(env) === 'fast' || SMALL.options.every((option) => options.includes(option))) {
    return { options, env }
  }
  return {
    options: [...options.filter((option) => !YOUNG.test(option)), ...SMALL.options],
    env: { ...SMALL.env, ...env },
  }
}

/** Starts this process again with the options of its profile, unless it got a channel or sockets, which Node would close. */
export function applyMemoryProfile(): void {
  const { env, execArgv, execPath, argv, platform } = process
  const wanted = forProfile({ options: execArgv, env })
  const hasFiles = process.channel !== undefined || env.LISTEN_FDS !== undefined
  if (isDeepStrictEqual(wanted.options, execArgv) || hasFiles || platform === 'win32') return
  try {
    process.execve?.(execPath, [execPath, ...wanted.options, ...argv.slice(1)], wanted.env)
  } catch (error) {
    process.stderr.write(`GATEWAY_PROFILE=small has no effect: ${String(error)}\n`)
  }
}
