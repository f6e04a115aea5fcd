/** @import { Moment } from '../wire.ts' */
import { byId, setText, showFacts } from './elements.js'
import { showHealth, showPanels, stateOf } from './panels.js'
import { Plots } from './plots.js'
import { follow, TOKEN } from './stream.js'
import { latency, rate, whole } from './words.js'

const THEME = 'countersign-theme'
const NO_ANSWER = 'no answer'
const REFUSED = 'refused'
const THEMES = ['system', 'light', 'dark']
const prefersDark = matchMedia('(prefers-color-scheme: dark)')
const pause = byId('pause')
const form = byId('sign-in', HTMLFormElement)
const tokenField = byId('token', HTMLInputElement)
const notice = byId('notice')
/** @type {Plots | undefined} */
let plots
/** @type {Moment | undefined} */
let last
let lastAtMs = 0
showTheme()
let stop = connect()

byId('theme').addEventListener('click', () => {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length] ?? 'system'
  localStorage.setItem(THEME, next)
  showTheme()
})
prefersDark.addEventListener('change', showTheme)
pause.addEventListener('click', () => {
  const isPaused = !paused()
  pause.setAttribute('aria-pressed', String(isPaused))
  if (!isPaused) show()
})
byId('near-limit').addEventListener('change', show)
byId('console').addEventListener('click', (event) => {
  // Nobody would serve the link's target, and this page would be gone.
  if (byId('link').textContent === NO_ANSWER) event.preventDefault()
})
byId('sign-out').addEventListener('click', () => {
  sessionStorage.removeItem(TOKEN)
  location.reload()
})
form.addEventListener('submit', (event) => {
  event.preventDefault()
  const token = tokenField.value.trim()
  tokenField.value = ''
  // A header field cannot carry other characters: the request would fail like a lost connection.
  if (!/^[\x21-\x7e]+$/.test(token)) {
    setText(byId('sign-in-fault'), 'A token has visible ASCII characters only.')
    return
  }
  sessionStorage.setItem(TOKEN, token)
  form.hidden = true
  stop()
  stop = connect()
})

function connect() {
  const token = sessionStorage.getItem(TOKEN) ?? undefined
  return follow(token, {
    history: (points) => {
      showLink('live', 'good')
      open()
      byId('sign-out').hidden = token === undefined
      plots?.begin(points)
    },
    moment: (moment) => {
      showLink('live', 'good')
      say('')
      last = moment
      lastAtMs = Date.now()
      plots?.add(moment.point)
      showHealth(moment.state)
      entitle(stateOf(moment.state))
      if (!paused()) show()
    },
    fault: (reason) => say(`The gateway could not read its state: ${reason}`),
    lost: () => age(NO_ANSWER, silence()),
    refused: (reason) => age(REFUSED, refusal(reason.trim())),
    unauthorized: askForToken,
  })
}

function open() {
  say('')
  byId('console').classList.remove('old')
  form.hidden = true
  byId('console').hidden = false
  plots ??= new Plots()
}

/** @param {boolean} wasTried */
function askForToken(wasTried) {
  sessionStorage.removeItem(TOKEN)
  showLink('signed out', 'warn')
  say('')
  byId('console').hidden = true
  byId('sign-out').hidden = true
  setText(byId('sign-in-fault'), wasTried ? 'This is not the token in force.' : '')
  form.hidden = false
  tokenField.focus()
}

function paused() {
  return pause.getAttribute('aria-pressed') === 'true'
}

function show() {
  if (last === undefined) return
  const { point, state } = last
  showFacts('tiles', [
    ['Responses', rate(point.ok + point.clientErrors + point.serverErrors)],
    ['5xx', point.serverErrors > 0 ? { text: rate(point.serverErrors), is: 'bad' } : rate(0)],
    ['Refusals', rate(point.refused)],
    ['p95', latency(point.p95Ms)],
    ['In flight', whole(state.inFlight)],
    ['Tunnels', whole(state.tunnels)],
  ])
  showPanels(state)
}

/** Greys numbers that may be out of date. @param {string} link @param {string} why */
function age(link, why) {
  showLink(link, 'bad')
  say(why)
  byId('console').classList.add('old')
  const health = byId('health')
  health.className = 'pill'
  setText(health, 'unknown')
}

/** @param {string} reason */
function refusal(reason) {
  const numbers = last === undefined || paused() ? '' : ' The numbers are out of date.'
  return `Refused: ${reason}.${numbers} Another try follows.`
}

function silence() {
  if (last === undefined) return 'No answer from the gateway.'
  const numbers = paused() ? '' : '; the numbers are from then'
  const since = new Date(lastAtMs).toLocaleTimeString('sv')
  const help = 'What to do: chapter CountersignDown of the runbook, docs/operate/runbook.md of the release'
  return `No answer from the gateway since ${since}${numbers}. ${help}. Links work again when it answers.`
}

/** @param {string} state */
function entitle(state) {
  document.title = `${state} · ${last?.state.host ?? location.host} · Countersign`
}

/** @param {string} text @param {'good' | 'bad' | 'warn'} is */
function showLink(text, is) {
  const link = byId('link')
  link.className = `pill ${is}`
  setText(link, text)
  byId('served').hidden = text !== REFUSED
  if (is !== 'good') entitle(text)
}

/** @param {string} text */
function say(text) {
  notice.hidden = text === ''
  setText(notice, text)
}

function theme() {
  const chosen = localStorage.getItem(THEME) ?? ''
  return THEMES.includes(chosen) ? chosen : 'system'
}

function showTheme() {
  const chosen = theme()
  const isDark = chosen === 'dark' || (chosen === 'system' && prefersDark.matches)
  document.documentElement.dataset.theme = isDark ? 'dark' : 'light'
  setText(byId('theme'), `Theme: ${chosen}`)
  plots?.draw()
}
