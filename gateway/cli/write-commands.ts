import { writeFileSync } from 'node:fs'
import { commandsDocument } from './commands-document.ts'

/* `npm run schemas`, after an edit of a command's help. */
writeFileSync(new URL('../../config/COMMANDS.md', import.meta.url), await commandsDocument())
