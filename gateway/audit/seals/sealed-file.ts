import { closeSync, fdatasyncSync, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { realPathOf } from '../../storage/append-file.ts'
import { regularStats } from '../../storage/regular-file.ts'
import { namesBeside } from '../segments/trail-segments.ts'
import type { SealProgress } from './seal-progress.ts'

const PIECE_BYTES = 128 * 1024

/**
 * A file of the trail, whose lines must be on the disk before a checkpoint covers them. After a failed
 * `fdatasync` Linux treats the lost bytes as written: a later call succeeds without writing them. So doubtful bytes are
 * written again in place.
 */
export class SealedFile {
  readonly inode: string
  position: number
  #fd: number | undefined
  readonly #auditFile: string
  #synced: number
  #doubt: { from: number; readonly to: number } | undefined
  readonly #progress: Pick<SealProgress, 'mends'>
  readonly #onLasting: (fault: string) => void

  /** @param options isDoubtful: an earlier sync may have failed */
  constructor(
    place: { readonly file: string; readonly inode: string; readonly position: number },
    options: {
      readonly isDoubtful: boolean
      readonly progress: Pick<SealProgress, 'mends'>
      onLasting(fault: string): void
    },
  ) {
    this.inode = place.inode
    this.position = place.position
    this.#synced = place.position
    const path = pathOf(place.file, place.inode)
    this.#auditFile = place.file
    this.#fd = path === undefined ? undefined : openSync(path, 'r')
    this.#progress = options.progress
    this.#onLasting = options.onLasting
    if (options.isDoubtful) this.#startDoubt()
  }

  get isRemoved(): boolean {
    return this.#fd === undefined || fstatSync(this.#fd).nlink === 0
  }

  sync(): void {
    if (this.#fd === undefined) return
    try {
      this.#writeAgain(this.#fd)
      fdatasyncSync(this.#fd)
      this.#synced = this.position
    } catch (error) {
      this.#startDoubt()
      throw error
    }
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
  }

  #startDoubt(): void {
    if (this.#fd !== undefined) this.#doubt = { from: this.#synced, to: fstatSync(this.#fd).size }
  }

  #writeAgain(fd: number): void {
    const doubt = this.#doubt
    if (doubt === undefined) return
    const end = Math.min(doubt.to, this.position)
    if (doubt.from < end) {
      const path = pathOf(this.#auditFile, this.inode)
      const target = path === undefined ? undefined : openToMend(path)
      if (target === undefined) this.#sayLasting(path)
      else {
        this.#progress.mends++
        try {
          copyInPlace(fd, target, doubt.from, end)
        } finally {
          this.#progress.mends++
          closeSync(target)
        }
      }
      doubt.from = end
    }
    if (doubt.from >= doubt.to) this.#doubt = undefined
  }

  #sayLasting(path: string | undefined): void {
    if (path === undefined) return
    this.#onLasting(
      `${path} is append-only, so the gateway cannot write again what the disk may have lost: run "audit verify"`,
    )
  }
}

function copyInPlace(source: number, target: number, from: number, to: number): void {
  const bytes = Buffer.allocUnsafeSlow(PIECE_BYTES)
  for (let at = from; at < to; ) {
    const count = readSync(source, bytes, 0, Math.min(PIECE_BYTES, to - at), at)
    if (count === 0) return
    for (let done = 0; done < count; ) done += writeSync(target, bytes, done, count - done, at + done)
    at += count
  }
}

/** @returns undefined when the file is append-only (`chattr +a`) */
function openToMend(path: string): number | undefined {
  try {
    return openSync(path, 'r+')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EPERM') return undefined
    throw error
  }
}

function pathOf(auditFile: string, inode: string): string | undefined {
  const file = realPathOf(auditFile)
  const paths = namesBeside(file).map((name) => join(dirname(file), name))
  return [file, ...paths].find((path) => regularStats(path)?.ino.toString() === inode)
}
