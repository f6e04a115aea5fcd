import { byId, setText } from './elements.js'
import { TOKEN } from './stream.js'

const token = sessionStorage.getItem(TOKEN)
const headers = token === null ? {} : { authorization: `Bearer ${token}` }
const response = await fetch('/runbook/values', { headers, credentials: 'omit' })
if (response.ok) {
  const values = await response.json()
  for (const block of document.querySelectorAll('pre')) {
    const text = (block.textContent ?? '').replaceAll(/\b([A-Z_]+)=\S+/g, (example, name) =>
      Object.hasOwn(values, name) ? `${name}=${values[name]}` : example,
    )
    setText(block, text)
  }
  setText(byId('whose'), 'Values below are those of this gateway, where it has them.')
}
