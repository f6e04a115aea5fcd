import { parentPort, workerData } from 'node:worker_threads'
import { parseClients } from '../config/clients-file.ts'
import { parseLimits } from '../limits/table/limits-file.ts'
import type { ParseJob } from './parse-apart.ts'

// The thread that parse-apart.ts starts: parses one text, posts the result, and ends.

const { kind, file, text } = workerData as ParseJob
parentPort?.postMessage(kind === 'limits' ? parseLimits(file, text) : parseClients(file, text))
