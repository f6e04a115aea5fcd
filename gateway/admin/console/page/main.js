/** @import { Moment } from '../wire.ts' */
import { byId, setText, showFacts } from './elements.js'
import { showPanels, stateOf } from './panels.js'
import { Plots } from './plots.js'
import { follow, TOKEN } from './stream.js'
import { milliseconds, rate, whole } from './words.js'

const THEME = 'countersign-theme'
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
byId('sign-out').addEventListener('click', () => {
  sessionStorage.removeItem(TOKEN)
  location.reload()
})
form.addEventListener('submit', (event) => {
  event.preventDefault()
  const token = tokenField.value.trim()
  tokenField.value = ''
  // A header field can carry no other, so that the request would fail like a lost connection.
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
      plots?.add(moment.point)
      if (!paused()) show()
    },
    fault: (reason) => say(`The gateway could not read its state: ${reason}`),
    lost: () => showLink('connection lost, trying again', 'bad'),
    refused: (reason) => {
      showLink('refused', 'bad')
      say(reason)
    },
    unauthorized: askForToken,
  })
}

function open() {
  say('')
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
    ['p95', milliseconds(point.p95Ms)],
    ['In flight', whole(state.inFlight)],
    ['Tunnels', whole(state.tunnels)],
  ])
  showPanels(state)
  entitle(stateOf(state))
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
