import { writeFileSync } from 'node:fs'
import { metricsDocument } from '../admin/metrics-document.ts'
import { commandsDocument } from './commands-document.ts'

/* `npm run schemas`, after an edit of a command's help or of the table of metrics. */
writeFileSync(new URL('../../docs/reference/commands.md', import.meta.url), await commandsDocument())
writeFileSync(new URL('../../docs/reference/metrics.md', import.meta.url), await metricsDocument())
