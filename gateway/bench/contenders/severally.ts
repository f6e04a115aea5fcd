import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Contender, Ground, RunningContender } from '../contender.ts'

/** So many of a contender as processes of their own, which know nothing of one another. */
export function severally(count: number, contender: Contender): Contender {
  return { ...contender, start: (ground) => start(count, contender, ground) }
}

async function start(count: number, contender: Contender, ground: Ground): Promise<RunningContender> {
  const all: RunningContender[] = []
  const end = async () => {
    await Promise.all(all.map((one) => one.end()))
  }
  try {
    for (let i = 0; i < count; i++) {
      const dir = join(ground.dir, String(i))
      mkdirSync(dir)
      all.push(await contender.start({ ...ground, dir }))
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
