/* The gateway's words are shown by `textContent` and attributes, never as markup. */

/** @template {HTMLElement} [Kind=HTMLElement] @param {string} id @param {new () => Kind} [kind] @returns {Kind} */
export function byId(id, kind) {
  const element = document.getElementById(id)
  if (element === null || (kind !== undefined && !(element instanceof kind))) throw new Error(`no ${id}`)
  return /** @type {Kind} */ (element)
}

/** @typedef {string | { text: string, is?: 'good' | 'bad' | 'warn' | 'number' | 'number warn' | 'number bad', hover?: string }} Value */
/** @typedef {Value | { near: number, of: number }} Cell A value, or a count and its limit. */

/** @param {string} text @returns {Value} */
export function number(text) {
  return { text, is: 'number' }
}

/**
 * Shows rows in a table. Unchanged cells are left alone, so that a selection survives.
 * @param {string} id @param {readonly string[]} titles @param {readonly (readonly Cell[])[]} rows
 * @param {string} none shown without rows @param {number} [more] rows not shown
 */
export function showTable(id, titles, rows, none, more = 0) {
  const table = byId(id, HTMLTableElement)
  const body = table.tBodies[0] ?? tableWith(table, titles)
  const numbers = new Set(
    rows.find(({ length }) => length > 1)?.flatMap((cell, i) => (isNumber(cell) ? [i] : [])) ?? [],
  )
  for (const [i, head] of [...(table.tHead?.rows[0]?.cells ?? [])].entries())
    head.className = numbers.has(i) ? 'number' : ''
  const shown = rows.length === 0 ? [[none]] : more > 0 ? [...rows, [`and ${more} more`]] : rows
  while (body.rows.length > shown.length) body.deleteRow(-1)
  for (const [i, cells] of shown.entries()) {
    const isNote = cells.length < titles.length
    showRow(body.rows[i] ?? body.insertRow(), cells, { titles, span: isNote ? titles.length : 1 })
  }
}

/** @param {Cell} cell */
function isNumber(cell) {
  return typeof cell === 'object' && 'is' in cell && cell.is?.startsWith('number') === true
}

/** @param {HTMLTableElement} table @param {readonly string[]} titles */
function tableWith(table, titles) {
  const head = table.createTHead().insertRow()
  for (const title of titles) {
    const cell = document.createElement('th')
    cell.scope = 'col'
    cell.textContent = title
    head.append(cell)
  }
  return table.createTBody()
}

/**
 * @param {HTMLTableRowElement} row @param {readonly Cell[]} cells
 * @param {{ titles: readonly string[], span: number }} columns
 */
function showRow(row, cells, { titles, span }) {
  if (row.cells.length !== cells.length || row.cells[0]?.colSpan !== span) {
    row.replaceChildren(
      ...cells.map((_, i) => {
        const cell = document.createElement(i === 0 && span === 1 ? 'th' : 'td')
        if (cell.tagName === 'TH') cell.scope = 'row'
        cell.colSpan = span
        return cell
      }),
    )
  }
  for (const [i, value] of cells.entries()) {
    const cell = row.cells[i]
    if (cell === undefined) continue
    // Narrow screens show the title before the text.
    cell.dataset.title = span > 1 ? '' : (titles[i] ?? '')
    showCell(cell, value, span)
  }
}

/** @param {HTMLTableCellElement} cell @param {Cell} value @param {number} span */
function showCell(cell, value, span) {
  if (typeof value === 'object' && 'near' in value) {
    showNear(cell, value)
    return
  }
  showValue(cell, span > 1 && typeof value === 'string' ? { text: value, is: 'empty' } : value)
}

/** @param {HTMLElement} element @param {Value | { text: string, is: 'empty', hover?: string }} value */
function showValue(element, value) {
  const { text, is = '', hover = '' } = typeof value === 'string' ? { text: value } : value
  element.className = is
  if (element.title !== hover) element.title = hover
  setText(element, text)
}

/** @param {HTMLTableCellElement} cell @param {{ near: number, of: number }} value */
function showNear(cell, { near, of }) {
  const found = cell.querySelector('meter')
  const meter = found ?? document.createElement('meter')
  if (found === null) cell.replaceChildren(meter, document.createElement('span'))
  meter.min = 0
  meter.max = Math.max(1, of)
  meter.low = meter.max * 0.7
  meter.high = meter.max * 0.95
  meter.optimum = 0
  meter.value = near
  const text = `${near} of ${of}`
  if (meter.ariaLabel !== text) meter.ariaLabel = text
  setText(/** @type {HTMLElement} */ (meter.nextElementSibling), text)
}

/** @typedef {readonly [name: string, value: Value]} Fact */

/** @param {string} id @param {readonly Fact[]} facts */
export function showFacts(id, facts) {
  const list = byId(id)
  while (list.children.length > facts.length) list.lastElementChild?.remove()
  for (const [i, [name, value]] of facts.entries()) {
    let pair = list.children[i]
    if (pair === undefined) {
      pair = document.createElement('div')
      pair.append(document.createElement('dt'), document.createElement('dd'))
      list.append(pair)
    }
    const [term, definition] = /** @type {HTMLElement[]} */ ([...pair.children])
    if (term === undefined || definition === undefined) continue
    setText(term, name)
    showValue(definition, value)
  }
}

/** @typedef {{ href: string, link: Value, detail: Value, since: Value }} Line */

/** @param {string} id @param {readonly Line[]} lines */
export function showLines(id, lines) {
  const list = byId(id)
  while (list.children.length > lines.length) list.lastElementChild?.remove()
  for (const [i, { href, link, detail, since }] of lines.entries()) {
    let item = list.children[i]
    if (item === undefined) {
      item = document.createElement('li')
      for (const name of ['a', 'span', 'small']) item.append(document.createElement(name), ' ')
      list.append(item)
    }
    const [anchor, ...texts] = /** @type {[HTMLAnchorElement, ...HTMLElement[]]} */ ([...item.children])
    if (anchor.getAttribute('href') !== href) anchor.href = href
    for (const [at, value] of [link, detail, since].entries())
      showValue(at === 0 ? anchor : /** @type {HTMLElement} */ (texts[at - 1]), value)
  }
}

/** @param {HTMLElement} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text
}
