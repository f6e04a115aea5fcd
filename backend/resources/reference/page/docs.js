// @ts-check

/** Adds what Swagger UI lacks: our name, narrow screens, dark mode, and names and levels for assistive technology. */
const page = document.getElementById('swagger-ui') ?? document.body

const viewport = document.createElement('meta')
viewport.name = 'viewport'
viewport.content = 'width=device-width, initial-scale=1'
document.head.append(viewport)

const brand = document.createElement('header')
brand.className = 'brand'
const icon = document.createElement('img')
icon.src = '/docs/static/theme/icon.svg'
icon.alt = ''
icon.width = icon.height = 32
const name = document.createElement('h1')
name.textContent = 'Countersign'
brand.append(icon, name)
page.before(brand)

/** @type {readonly (readonly [selector: string, attribute: string, value: string])[]} */
const ATTRIBUTES = [
  ['.info .title', 'aria-level', '2'],
  ['.information-container', 'role', 'region'],
  ['.information-container', 'aria-label', 'About'],
  ['.scheme-container', 'role', 'region'],
  ['.scheme-container', 'aria-label', 'Authorization'],
  ['.close-modal', 'aria-label', 'Close'],
  ['table[role]', 'role', 'table'],
  ['.microlight', 'tabindex', '0'],
]
new MutationObserver(() => {
  for (const [selector, attribute, value] of ATTRIBUTES) {
    for (const part of page.querySelectorAll(selector)) part.setAttribute(attribute, value)
  }
  for (const button of page.querySelectorAll('.auth-btn-wrapper [aria-label]'))
    button.removeAttribute('aria-label')
  for (const control of page.querySelectorAll('.opblock :is(input, select, textarea):not([aria-label])')) {
    const parameter = control.closest('[data-param-name]')?.getAttribute('data-param-name')
    control.setAttribute('aria-label', parameter ?? 'Body')
  }
}).observe(page, { childList: true, subtree: true })

const dark = matchMedia('(prefers-color-scheme: dark)')
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', follow)
follow()
