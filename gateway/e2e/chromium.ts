import { existsSync } from 'node:fs'
import { after } from 'node:test'
import { type Browser, chromium } from 'playwright-core'

/** The first has no user interface, and needs a fifth of the second's CPU. */
const PROGRAMS = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium']
const PROGRAM = process.env.CHROMIUM_PATH ?? PROGRAMS.find(existsSync) ?? '/usr/bin/chromium'
/** Features that a window loads beside the page. They would cost a third of these tests' CPU. */
const BESIDE = [
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
  'WebUIOmniboxFullPopup',
  'SpareRendererForSitePerProcess',
]
/** Features that playwright-core turns off. Our list replaces its own. */
const BY_PLAYWRIGHT = [
  ...['AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'PaintHolding', 'LensOverlay'],
  ...['HttpsUpgrades', 'HttpsFirstBalancedModeAutoEnable', 'AvoidCorsURLLoaderRestartOnRedirect'],
  ...['AimEnabled', 'MediaRouter', 'NetworkTimeServiceQuerying', 'OptimizationHints', 'PreconnectToSearch'],
  'ThirdPartyStoragePartitioning',
]

/** Why tests are skipped; undefined where Chromium is installed. */
export const NO_CHROMIUM = existsSync(PROGRAM)
  ? undefined
  : `${PROGRAM} is not installed (apt-get install chromium-headless-shell, or chromium)`

/** Where to put pictures of the pages, for people to look at; none when it is not set. */
export const { SCREENSHOTS } = process.env

let chromiumOfThisProcess: Promise<Browser> | undefined
after(async () => (await chromiumOfThisProcess)?.close())

/** One Chromium for all tests of this process: a start costs 1 s of CPU. Each test opens its own context or page. */
export function launchChromium(): Promise<Browser> {
  chromiumOfThisProcess ??= chromium.launch({
    executablePath: PROGRAM,
    args: ['--no-sandbox', '--disable-gpu', `--disable-features=${[...BESIDE, ...BY_PLAYWRIGHT].join(',')}`],
  })
  return chromiumOfThisProcess
}
