import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Contender, ContenderSetup, RunningContender } from '../contender.ts'

/** The same contender in several processes that share nothing but what the environment names. */
export function severalProcesses(count: number, contender: Contender): Contender {
  return { ...contender, start: (setup) => start(count, contender, setup) }
}

async function start(count: number, contender: Contender, setup: ContenderSetup): Promise<RunningContender> {
  const all: RunningContender[] = []
  const end = async () => {
    await Promise.all(all.map((one) => one.end()))
  }
  try {
    for (let i = 0; i < count; i++) {
      const dir = join(setup.dir, String(i))
      mkdirSync(dir)
      all.push(await contender.start({ ...setup, dir }))
    }
  } catch (error) {
    await end()
    throw error
  }
  return {
    ports: all.flatMap(({ ports }) => ports) as [number, ...number[]],
    pids: all.flatMap(({ pids }) => pids) as [number, ...number[]],
    tidy: () => {
      for (const one of all) one.tidy()
    },
    end,
  }
}
