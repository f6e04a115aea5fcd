import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { LONGER } from '../../e2e/long-runs.ts'
import { checker } from './body-checks.test-support.ts'
import { type OperationPlace, OperationRules } from './compiled-operations.ts'
import { LinearPattern } from './linear-pattern.ts'
import { asJsonSchemas } from './openapi-schemas.ts'
import { readPattern, Unsupported } from './read-pattern.ts'
import { beginSteps, TooComplex } from './schema-fits.ts'

/** Tells whether a text of one check fits. @throws TooComplex */
function fits(source: string, text: string): boolean {
  beginSteps()
  return new LinearPattern(source).test(text)
}

/** Matches as ECMA-262 does with `u`. In V8 14 `/[^a]$/u` matches no letter beyond U+FFFF without `[^]*?` before it. */
function fitsByEcma(source: string, text: string): boolean {
  return new RegExp(`^(?:[^]*?)(?:${source})`, 'u').test(text)
}

test('patterns that a backtracking engine takes seconds or centuries for are matched in one pass', () => {
  const email =
    '^([a-zA-Z0-9])(([\\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}(([a-z]{2,3})|([a-z]{2,3}[.]{1}[a-z]{2,3}))$'
  assert.equal(fits(email, `${'a'.repeat(45)}!`), false)
  assert.equal(fits(email, `${'a'.repeat(1_000_000)}!`), false)
  assert.equal(fits(email, 'jo@x.co'), true)
  for (const [pattern, text] of [
    ['\\s+$', `${' '.repeat(40_000)}x`],
    ['^(a+)+$', `${'a'.repeat(100_000)}!`],
    ['^(?:\\w{1,20}\\s?)+$', `${'a'.repeat(200)}!`],
    ['^(?:a|a|a|a|\\w)*$', `${'a'.repeat(100_000)}!`],
    ['^((?:(?:[a-z]{1,10} ?){1,10},?){1,5})?$', `${'a'.repeat(300)}!`],
    ['^(?=.*\\d)(?=.*[a-z])(?=.*[A-Z]).{8,}$', 'a1'.repeat(50_000)],
  ] as const) {
    assert.equal(fits(pattern, text), false, pattern)
  }
})

test('the steps of a pattern with too many states are counted by its size, and a text of too many steps is refused', () => {
  const text = 'aababbab'.repeat(1500)
  assert.equal(fits('^[ab]*a[ab]{20}$', text), true)
  assert.throws(() => fits('[ab]*a[ab]{999}c', text), TooComplex)
  assert.equal(fits('[ab]*a[ab]{999}c', 'ab'), false)
})

test('many empty texts are counted too, because without known states each call makes lists of all places', () => {
  for (const source of ['\\p{L}+\\p{N}{1,100}x', '(?:a{0,100}){0,10}b+']) {
    const pattern = new LinearPattern(source)
    beginSteps()
    const testMany = () => {
      for (let count = 0; count < 40_000; count++) pattern.test('')
    }
    assert.throws(testMany, TooComplex, source)
  }
})

test('syntax of other dialects is read where it has an exact equivalent', () => {
  for (const [pattern, fitting, failing] of [
    ['\\A[a-z]+\\z', ['abc'], ['abc\n', '1a', 'A']],
    ['^a\\Z', ['a', 'a\n'], ['a\n\n', 'ab']],
    ['^[[:alpha:]_][[:digit:]]*$', ['_12', 'Z'], ['1', 'é', ':']],
    ['^[^[:space:][:upper:]]+$', ['a1'], ['a b', 'A', 'a\v']],
    ['(?i)^(all|none)$', ['ALL', 'None'], ['al', 'ALLX']],
    ['^(?i)[a-f-]{2}$', ['aF', '-B'], ['ag', '__']],
    ['^.+(\\.(?i)(jpe?g|png))$', ['x.JPG', 'x.png'], ['x.gif', 'x_PNG']],
    ['^a(?i:b)c$', ['aBc', 'abc'], ['aBC', 'Abc']],
    ['^(?i)[^x]$', ['y'], ['X', 'x']],
    ['(?i)^[a-z]+@[a-z]+(?:\\.[a-z]+)*$', ['Jo@X.co'], ['jo@', '1@x']],
    ['/^[A-Z]{3}$/', ['ABC'], ['/ABC/', 'abc']],
    ['/^[A-Z]{3}$/i', ['ABC', 'abc'], ['/ABC/', 'ab']],
    ['/[a-z]+/', ['/abc/'], ['abc']],
    ['^(?P<year>[0-9]{4})$', ['2026'], ['20']],
    ['^\\(?P<$', ['(P<', 'P<'], ['P']],
    ['\\_\\@\\"\\:', ['_@":'], ['a']],
  ] as const) {
    for (const text of fitting) assert.equal(fits(pattern, text), true, `${pattern} ${text}`)
    for (const text of failing) assert.equal(fits(pattern, text), false, `${pattern} ${text}`)
  }
})

test('a pattern that ignores case matches ASCII letters as ECMA-262 does with the flag i', () => {
  const letters = fc.constantFrom(
    'a',
    'Z',
    '[a-c]',
    '[X-b]',
    '[^k-m]',
    '1',
    '.',
    '\\w',
    '(?:ab|C)',
    'd?',
    '[[-b]',
  )
  const source = fc.array(letters, { minLength: 1, maxLength: 4 }).map((parts) => parts.join(''))
  const text = fc.array(fc.constantFrom(...'abcABCkKzZxX_[1^-'), { maxLength: 5 }).map((all) => all.join(''))
  fc.assert(
    fc.property(source, text, (one, other) => {
      assert.equal(fits(`(?i)^${one}$`, other), new RegExp(`^${one}$`, 'i').test(other))
    }),
  )
})

const ATOMS = ['a', 'b', '\\d', '\\w', '\\s', '.', '[^a]', '[a-c\\-]', '[]', '[^]', '\\D', '\\S', '\\W']
  .concat([
    '[\\s\\d]',
    '[^\\W]',
    '\\cA',
    '\\u{1F600}',
    '\\uD83D\\uDE00',
    '\\u2028',
    '\\x41',
    '[\\u0000-\\x1f]',
  ])
  .concat([
    '^',
    '$',
    '\\b',
    '\\B',
    '\\.',
    '\\/',
    '\\0',
    'é',
    '😀',
    '[😀-😂]',
    '[\\uD83D\\uDE00]',
    '\\t',
    '\\ufeff',
  ])
  .concat(['\\p{Lu}', '\\P{Lu}', '[\\P{Lu}1]', '(?=a)', '(?!b)', '(?<=a)', '(?<!\\d)'])
const QUANTIFIERS = ['', '', '', '?', '*', '+', '{2}', '{1,}', '{0,3}', '*?', '{0}']
const isAssertion = (atom: string) => /^(?:\^|\$|\\[bB]|\(\?<?[=!])/.test(atom)
const { pattern: PATTERN } = fc.letrec<{ pattern: string; part: string; one: string }>((tie) => ({
  pattern: fc.oneof(
    { maxDepth: 3 },
    fc.array(tie('part'), { minLength: 1, maxLength: 4 }).map((parts) => parts.join('')),
    fc.array(tie('part'), { minLength: 2, maxLength: 3 }).map((parts) => parts.join('|')),
  ),
  part: fc
    .tuple(tie('one'), fc.constantFrom(...QUANTIFIERS))
    .map(([one, quantifier]) => (isAssertion(one) ? one : one + quantifier)),
  one: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom(...ATOMS),
    fc.tuple(fc.constantFrom('(?:', '('), tie('pattern')).map(([open, inside]) => `${open}${inside})`),
  ),
}))
const LETTERS = [
  'a',
  'b',
  'c',
  'A',
  '1',
  '_',
  ' ',
  '\n',
  '\r',
  '\u2028',
  '\u00a0',
  '\ufeff',
  'é',
  '😀',
].concat([...['\ud83d', '\ude00', '-', '\0', '\u0001', '.', '/', '\u00c9', '\u{10400}']])
const TEXT = fc.array(fc.constantFrom(...LETTERS), { maxLength: 8 }).map((letters) => letters.join(''))
const TEXTS = fc.array(TEXT, { minLength: 5, maxLength: 5 })

test('a random pattern matches what it matches by ECMA-262, whichever engine it runs in', () => {
  const counts = { matched: 0, unsupported: 0 }
  fc.assert(
    fc.property(
      fc.constantFrom('', '^'),
      PATTERN,
      fc.constantFrom('', '$'),
      TEXTS,
      (begin, middle, end, texts) => {
        const source = begin + middle + end
        let pattern: LinearPattern
        try {
          pattern = new LinearPattern(source)
        } catch (error) {
          assert.ok(error instanceof Unsupported, String(error))
          assert.match(error.message, /looks (?:ahead|behind)|is too large/)
          counts.unsupported += 1
          return
        }
        counts.matched += 1
        for (const text of texts) {
          beginSteps()
          assert.equal(pattern.test(text), fitsByEcma(source, text), JSON.stringify([source, text]))
        }
      },
    ),
    { numRuns: 300 * LONGER },
  )
  // On average half of the patterns can be made.
  assert.ok(counts.matched * 3 > counts.unsupported, JSON.stringify(counts))
})

function isByEcma(source: string): boolean {
  try {
    return new RegExp(source, 'u') !== undefined
  } catch {
    return false
  }
}

test('a pattern that is invalid with the flag u is read as its author meant it', () => {
  for (const [source, fitting, failing] of [
    ["^[\\p{L}\\-\\' ]+$", "José O'Neill-漢", 'p{L}'],
    ['^\\pL+$', 'José', 'a1'],
    ['^\\p{Letter}\\-\\p{Script=Greek}\\p{Han}$', 'a-α漢', 'a-a漢'],
    ['^\\-\\_\\@\\#$', '-_@#', '-'],
    ['^[\\w-.]+$', 'a-.', '+'],
    ['^[\\d--a]+$', '1-a', '/'],
    ['^{a}]$', '{a}]', 'a'],
    ['^.\\-$', '😀-', '-'],
    ['^\\u{1F600}\\-(?<name>a)$', '😀-a', 'u-a'],
    ['^a{,3}\\-$', 'a{,3}-', 'aaa-'],
  ] as const) {
    assert.equal(isByEcma(source), false, source)
    assert.equal(fits(source, fitting), true, source)
    assert.equal(fits(source, failing), false, source)
  }
})

test('the fault of a pattern that no engine takes in bounded time names the pattern', () => {
  for (const [source, reason] of [
    ['^a+(?=b)c', 'looks ahead ("(?="), which cannot be matched in bounded time'],
    ['(?<!a)b+', 'looks behind ("(?<!"), which cannot be matched in bounded time'],
    ['^(a+)\\1$', 'refers back to a group ("\\1")'],
    ['^(?<a>b)\\k<a>$', 'refers back to a group ("\\k")'],
    ['^(?s:a)$', 'has a group with flags, of which only "(?i:" is known'],
    ['[[:^alpha:]]+', 'has a class of letters in brackets that is not known'],
    ['(?i)é', 'ignores the case of "é"'],
    ['^a++$', 'is written in another dialect than ECMA-262'],
    ['(?>a)', 'is written in another dialect than ECMA-262'],
    ['^\\ha', 'has the escape "\\h", which ECMA-262 does not know'],
    [
      '^\\p{Nothing}+$',
      'has a Unicode property that is not known ("\\p{Nothing}"): write it as "\\p{L}" or by the name of a script',
    ],
    ['(a{1000}){1000}', 'is too large: with its repetitions written out it has more than 5000 parts'],
    [
      `^(?:${'\u0101?'.repeat(5001)})*$`,
      'is too large: with its repetitions written out it has more than 5000 parts',
    ],
    [
      `^${'[ā-ž]'.repeat(19_000)}$`,
      'is too large: with its repetitions written out it has more than 5000 parts',
    ],
    [`${'('.repeat(5000)}a+${')'.repeat(5000)}`, 'has groups more than 100 deep'],
  ] as const) {
    const shown = source.length > 60 ? `${source.slice(0, 60)}…` : source
    assert.throws(() => new LinearPattern(source), new Unsupported(`the pattern "${shown}" ${reason}`))
  }
  assert.throws(() => new LinearPattern('('), SyntaxError)
})

test('white space is what ECMA-262 calls so, and a dot takes no end of a line', () => {
  for (const source of ['^\\s$', '^\\S$', '^[^\\s]$', '^[\\s\\d]$', '^.$', '^\\W$', '^\\D$']) {
    const [pattern, oracle] = [new LinearPattern(`(?:a+|${source})`), new RegExp(source, 'u')]
    beginSteps()
    for (let point = 0; point < 0x10400; point++) {
      const letter = String.fromCodePoint(point)
      if (letter !== 'a')
        assert.equal(pattern.test(letter), oracle.test(letter), `${source} ${point.toString(16)}`)
    }
  }
})

test('the letters that have a property are those that V8 knows', () => {
  const names = [
    'L',
    'Lu',
    'Ll',
    'M',
    'N',
    'Nd',
    'P',
    'S',
    'Z',
    'Zs',
    'C',
    'Cc',
    'Script=Greek',
    'Script=Han',
  ]
  const points = fc
    .oneof(fc.nat(0x10ffff), fc.nat(0xffff), fc.nat(0x3ff))
    .map((point) => String.fromCodePoint(point))
  for (const name of names) {
    const [pattern, property] = [new LinearPattern(`^\\p{${name}}+$`), new RegExp(`^\\p{${name}}$`, 'u')]
    fc.assert(
      fc.property(points, (letter) => {
        beginSteps()
        assert.equal(pattern.test(letter), property.test(letter))
      }),
      { numRuns: 200 * LONGER },
    )
  }
})

test('a part may be repeated more than a thousand times in either engine', () => {
  for (const [pattern, least, most] of [
    ['^b*[ab]{2,1200}$', 2, 1200],
    ['^[ab]{1500,2700}$', 1500, 2700],
    ['^b*(?:a{1,2}){1,600}$', 1, 1200],
    ['^b*(?:a{40}){1,40}$', 40, 1600],
    ['^b*a{2500,}$', 2500, 3000],
  ] as const) {
    for (const [letters, fitting] of [
      [least - 1, false],
      [least, true],
      [most, true],
      [most + 1, most === 3000 && least === 2500],
    ] as const) {
      assert.equal(fits(pattern, 'a'.repeat(letters)), fitting, `${pattern} ${letters}`)
    }
  }
})

test('the states of all patterns of a document have one bound, and a pattern without states matches the same', () => {
  const room = { bytes: 300_000 }
  const patterns = Array.from({ length: 5 }, () => new LinearPattern('^[ab]*a[ab]{7}$', room))
  assert.ok(room.bytes >= 0 && room.bytes < 100_000, String(room.bytes))
  fc.assert(
    fc.property(fc.array(fc.constantFrom('a', 'b')), (letters) => {
      beginSteps()
      const [fitting, text] = [letters.at(-8) === 'a', letters.join('')]
      for (const pattern of patterns) assert.equal(pattern.test(text), fitting)
    }),
  )
})

test('the most steps that V8 can need are counted for each pattern', () => {
  const stepsOf = (source: string) => readPattern(source).map(({ cost }) => cost(1000).steps)
  assert.ok((stepsOf('^\\d{4}-\\d{2}$')[0] as number) < 20)
  assert.ok((stepsOf('^[A-Z]{1,4}-?[A-Z]{1,4}$')[0] as number) < 200)
  assert.ok((stepsOf('^(?:[A-Z]{1,8}-?){1,20}$')[0] as number) > 1e9)
  assert.ok((stepsOf('^.{1,5000}$')[0] as number) < 4000)
})

test('a pattern with exponential backtracking refuses one text and still accepts others', () => {
  const check = checker({ type: 'array', items: { pattern: '^(a+)+$' } })
  assert.match(check(['aaaa', `${'a'.repeat(100_000)}b`]) ?? '', /^\/1 must match pattern/)
  assert.equal(check(['aaaa', 'aaaaaaaaaaaaaaaa']), undefined)
})

test('a pattern that is invalid with the flag u works for texts and for names of members', () => {
  const name = checker({ pattern: "^[\\p{L}\\-\\' ]+$" })
  assert.equal(name("José O'Neill"), undefined)
  assert.match(name('p{L}') ?? '', /must match pattern/)
  const members = checker({
    patternProperties: { '^\\p{L}\\-$': { type: 'string' } },
    additionalProperties: false,
  })
  assert.equal(members({ 'é-': 'a' }), undefined)
  assert.equal(members({ 'é-': 1 }), '/é- must be string')
  assert.equal(members({ 'p-1': 'a' }), '/p-1 is not among the known members')
})

test('an operation that skips patterns checks all else; the pattern is a fault in another operation with that schema', () => {
  const Name = { type: 'string', maxLength: 9, allOf: [{ pattern: '^(a+)\\1$' }, { pattern: '^[a-z]+$' }] }
  const post = {
    requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Name' } } } },
  }
  const document = asJsonSchemas({
    paths: { '/a': { post }, '/b': { post } },
    components: { schemas: { Name } },
  })
  const [skipping, other] = ['/a', '/b'].map((path) => ({ path, pointer: `/paths/~1${path.slice(1)}/post` }))
  const rules = new OperationRules(document, [
    { ...skipping, skipsPatterns: true } as OperationPlace,
    other as OperationPlace,
  ])
  assert.deepEqual(
    rules.check().map(({ pointer }) => pointer),
    ['/paths/~1b/post/requestBody/content/application~1json/schema'],
  )
  const fits = rules.get({ ...skipping, skipsPatterns: true } as OperationPlace)?.content?.[0]?.fits
  assert.equal(fits?.('abc'), undefined)
  assert.match(fits?.('ABC')?.reason ?? '', /must match pattern/)
  assert.match(fits?.('abcabcabcabc')?.reason ?? '', /more than 9/)
})

test('each letter of a text costs the steps of its pattern, and too many steps are refused', () => {
  const texts = (text: string, count: number) => Array.from({ length: count }, () => text)
  const text = `${'ab '.repeat(20)}x`
  const costly = checker({ type: 'array', items: { pattern: '[ab ]*a[ab ]{100}$' } })
  assert.match(costly(texts(text, 3)) ?? '', /must match pattern/)
  const known = checker({ type: 'array', items: { pattern: '[a-z]+ [a-z]+ [a-z]+$' } })
  assert.equal(known(texts(text, 20_000)), undefined)
  assert.equal(known(texts(text, 60_000)), ' is too complex to be checked')
  assert.equal(known([`${'ab '.repeat(340_000)}x`]), undefined)
  const open = checker({ type: 'array', items: { pattern: 'b[ab ]{0,300}c$' } })
  assert.match(open([text]) ?? '', /must match pattern/)
})

test('nested repetitions, and many texts in one body, are matched in bounded time', () => {
  const texts = (text: string, count: number) => Array.from({ length: count }, () => text)
  for (const pattern of [
    '^(\\w{1,30}\\s?){1,20}$',
    '^(\\w+\\s?){1,10}$',
    '^(?:\\w+){12}$',
    '^((\\w{1,99}){0,4}\\s?){0,4}$',
    '^(?:[A-Z0-9a]{1,8}-?){1,20}$',
  ]) {
    assert.match(checker({ pattern })(`${'a'.repeat(400)}!`) ?? '', /must match pattern/, pattern)
  }
  for (const [pattern, text, count] of [
    ['^[^@]{1,64}@[^@]{1,255}$', 'somebody@some.example', 20_000],
    ['^(?:[A-Z0-9]{1,8}-?){1,20}$', 'AB12-CD34-EF', 2000],
    ['^[A-Z]{2}[0-9]{2}[A-Z0-9]{4}[0-9]{7}([A-Z0-9]?){0,16}$', 'DE89370400440532013000', 20_000],
    ['^[A-Z][a-z]{1,30}(?: [A-Z][a-z]{1,30}){0,4}$', 'Anna Maria Lopez', 20_000],
  ] as const) {
    assert.equal(checker({ type: 'array', items: { pattern } })(texts(text, count)), undefined, pattern)
  }
})
