import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PathTable, rowForMethod } from './path-table.ts'

function row(path: string, ...methods: string[]) {
  return { path, methods: methods.length === 0 ? undefined : new Set(methods) }
}

const table = new PathTable([
  row('/'),
  row('/api/users', 'GET'),
  row('/api/users', 'POST'),
  row('/api/users/*'),
  row('/api/*'),
  row('/Docs'),
])

function found(path: string): string | undefined {
  return table.find(path)?.rows[0]?.path
}

describe('PathTable', () => {
  it('prefers an exact path to a prefix and a longer prefix to a shorter one', () => {
    assert.equal(found('/api/users'), '/api/users')
    assert.equal(found('/api/users/1/2'), '/api/users/*')
    assert.equal(found('/api/users/'), '/api/users/*')
    assert.equal(found('/api/balance'), '/api/*')
    assert.equal(found('/'), '/')
  })

  it('finds nothing outside its rows', () => {
    assert.equal(found('/api'), undefined)
    assert.equal(found('/other'), undefined)
    assert.equal(found('/docs'), undefined)
    assert.equal(found('-'), undefined)
  })

  it('knows the registered methods, also methods that the parser of Node does not know', () => {
    for (const method of ['GET', 'QUERY', 'PROPFIND', 'UPDATE', 'LABEL', 'VERSION-CONTROL'])
      assert.equal(table.knows(method), true, method)
    for (const method of ['PURGE', 'STEAL', 'PRI']) assert.equal(table.knows(method), false, method)
    assert.equal(new PathTable([row('/', 'PURGE')]).knows('PURGE'), true)
  })

  it('covers everything with a row for /*', () => {
    const all = new PathTable([row('/*')])
    assert.ok(all.find('/') && all.find('/a') && all.find('/a/b/'))
  })

  it('finds rows whatever the case of the path and its closing slash when asked to fold', () => {
    const folded = (path: string) => table.findFolded(path)?.rows[0]?.path
    assert.equal(folded('/DOCS/'), '/Docs')
    assert.equal(folded('/API/Users/'), '/api/users')
    assert.equal(folded('/Api/Users/7'), '/api/users/*')
    assert.equal(folded('/API'), '/api/*')
    assert.equal(folded('/nothing'), undefined)
  })

  it('weighs a path and the prefix below it alike, so that a closing slash belongs to the prefix', () => {
    assert.equal(table.find('/api/users')?.weight, table.find('/api/users/x')?.weight)
    assert.ok((table.find('/api/users')?.weight ?? 0) > (table.find('/api/x')?.weight ?? 0))
  })

  it('chooses among the rows of one path by method', () => {
    const entry = table.find('/api/users')
    assert.ok(entry)
    assert.deepEqual(rowForMethod(entry, 'POST')?.methods, new Set(['POST']))
    assert.equal(rowForMethod(entry, 'DELETE'), undefined)
  })
})
