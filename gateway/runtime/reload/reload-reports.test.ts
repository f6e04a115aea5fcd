import assert from 'node:assert/strict'
import { it } from 'node:test'
import { labelOf } from './reload-reports.ts'

it('a file is named by its last part in metrics, unless another has the same', () => {
  const apart = { configFile: '/a/gateway.json', limitsFile: '/b/limits.json', clientsFile: undefined }
  assert.equal(labelOf('/b/limits.json', apart), 'limits.json')
  const alike = { configFile: '/a/config.json', limitsFile: '/b/config.json', clientsFile: '/b/tls' }
  const labels = [alike.configFile, alike.limitsFile, alike.clientsFile].map((file) => labelOf(file, alike))
  assert.deepEqual(labels, ['/a/config.json', '/b/config.json', '/b/tls'])
})
