/** Markup that is safe in a page without escaping. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

type Value = string | Html | undefined | readonly Html[]

/** A template of markup: strings put into it are escaped, for text and for quoted attributes; markup is not. */
export function html(parts: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(parts.map((part, index) => part + render(values[index])).join(''))
}

function render(value: Value): string {
  if (value === undefined) return ''
  if (value instanceof Html) return value.text
  if (typeof value === 'string') return value.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '')
  return value.map(({ text }) => text).join('')
}
