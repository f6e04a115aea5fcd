/** How the texts of a parameter are read. */
export type ParameterForm = 'single' | 'repeated' | 'commas' | 'json' | 'unread'

/** Whether it is an object of which only the members are in the query: `?R=1&G=2`, `?filter[a]=1`. */
export function isSpread(
  { in: place, style = 'form', explode, content }: Readonly<Record<string, unknown>>,
  types: ReadonlySet<string>,
): boolean {
  if (place !== 'query' || content !== undefined || !types.has('object')) return false
  return style === 'deepObject' || (style === 'form' && explode !== false)
}

/** @param types that its schema names */
export function formOf(
  { in: place, style, explode }: Readonly<Record<string, unknown>>,
  types: ReadonlySet<string>,
): ParameterForm {
  const usual = place === 'query' ? 'form' : 'simple'
  if ((style ?? usual) !== usual || types.has('object')) return 'unread'
  if (!types.has('array')) return 'single'
  return place === 'query' && explode !== false ? 'repeated' : 'commas'
}
