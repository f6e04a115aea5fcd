import { availableParallelism, cpus, loadavg, release, totalmem } from 'node:os'

/** What the numbers depend on. Call it before the run, whose own load would be in them. */
export function machineFacts(): readonly (readonly [string, string])[] {
  return [
    ['processor', `${cpus()[0]?.model.trim() ?? 'unknown'}, ${availableParallelism()} cores`],
    ['memory', `${(totalmem() / 2 ** 30).toFixed(1)} GiB`],
    ['kernel', `${process.platform} ${release()}`],
    ['Node', `${process.version}, V8 ${process.versions.v8}`],
    [
      'load before the run',
      loadavg()
        .map((load) => load.toFixed(2))
        .join(' '),
    ],
  ]
}
