import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

const PROGRAM = process.env.CHROMIUM_PATH ?? '/usr/bin/chromium'

/** What a test says that is skipped because there is no Chromium; undefined when there is one. */
export const NO_CHROMIUM = existsSync(PROGRAM) ? undefined : `${PROGRAM} is not installed`

export function launchChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: PROGRAM, args: ['--no-sandbox'] })
}
