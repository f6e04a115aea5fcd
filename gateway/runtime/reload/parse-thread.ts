import { parentPort, workerData } from 'node:worker_threads'
import { parseClients } from '../../config/clients/clients-file.ts'
import { rereadSettings } from '../../config/reload/reread-settings.ts'
import { parseLimits } from '../../limits/table/limits-file.ts'
import type { ParseJob } from './parse-apart.ts'

parentPort?.postMessage(parsed(workerData as ParseJob))

function parsed(job: ParseJob): unknown {
  if (job.kind === 'settings') return rereadSettings(job.options)
  return job.kind === 'limits' ? parseLimits(job.file, job.text) : parseClients(job.file, job.text)
}
