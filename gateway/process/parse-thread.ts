import { parentPort, workerData } from 'node:worker_threads'
import { parseClients } from '../config/clients-file.ts'
import { parseLimits } from '../limits/table/limits-file.ts'
import type { ParseJob } from './parse-apart.ts'

// The thread of parse-apart.ts: reads one text, says what it found, and ends.

const { kind, file, text } = workerData as ParseJob
parentPort?.postMessage(kind === 'limits' ? parseLimits(file, text) : parseClients(file, text))
