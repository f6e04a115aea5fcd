import { existsSync } from 'node:fs'
import { after } from 'node:test'
import { type Browser, chromium } from 'playwright-core'

/** The first has no user interface, which is a fifth of the CPU. */
const PROGRAMS = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium']
const PROGRAM = process.env.CHROMIUM_PATH ?? PROGRAMS.find(existsSync) ?? '/usr/bin/chromium'
/** What a window loads beside the page: a third of the CPU of these tests. */
const BESIDE = [
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
  'WebUIOmniboxFullPopup',
  'SpareRendererForSitePerProcess',
]
/** What playwright-core turns off, in a list that ours replaces. */
const BY_PLAYWRIGHT = [
  ...['AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'PaintHolding', 'LensOverlay'],
  ...['HttpsUpgrades', 'HttpsFirstBalancedModeAutoEnable', 'AvoidCorsURLLoaderRestartOnRedirect'],
  ...['AimEnabled', 'MediaRouter', 'NetworkTimeServiceQuerying', 'OptimizationHints', 'PreconnectToSearch'],
  'ThirdPartyStoragePartitioning',
]

/** What a test says that is skipped because there is no Chromium; undefined when there is one. */
export const NO_CHROMIUM = existsSync(PROGRAM)
  ? undefined
  : `${PROGRAM} is not installed (apt-get install chromium-headless-shell, or chromium)`

let chromiumOfThisProcess: Promise<Browser> | undefined
after(async () => (await chromiumOfThisProcess)?.close())

/** One for all tests of this process: its start costs a second of CPU. Each test opens a context or a page of its own. */
export function launchChromium(): Promise<Browser> {
  chromiumOfThisProcess ??= chromium.launch({
    executablePath: PROGRAM,
    args: ['--no-sandbox', '--disable-gpu', `--disable-features=${[...BESIDE, ...BY_PLAYWRIGHT].join(',')}`],
  })
  return chromiumOfThisProcess
}
