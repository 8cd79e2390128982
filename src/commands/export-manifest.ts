import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { readState, type Terms } from '#bulk';
import { OperatorError } from '../errors.ts';

export const MANIFEST = 'manifest.json';
const FORMAT = 'standin export';
const VERSION = 1;
const PART = /^pairs-\d{4,}\.ndjson(\.age)?$/;

/** A file of an export, as it is on the disk. */
interface ManifestPart {
  readonly file: string;
  readonly pairs: number;
  readonly bytes: number;
  /** In hex. */
  readonly sha256: string;
}

/** Says which files an export has. Has no value and no token, and is never encrypted. */
export interface Manifest {
  readonly format: typeof FORMAT;
  readonly version: typeof VERSION;
  /** Tells exports apart. */
  readonly export_id: string;
  readonly started_at: string;
  /** Options that a resumed run must repeat. */
  readonly terms: Terms;
  readonly is_complete: boolean;
  readonly pairs: number;
  readonly without_token: number;
  readonly parts: readonly ManifestPart[];
  /** Fingerprint where the next part begins, 32 hex digits; undefined: the export is complete. */
  readonly next?: string | undefined;
}

export function newManifest(terms: Terms): Manifest {
  return {
    ...{ format: FORMAT, version: VERSION, export_id: randomBytes(16).toString('hex') },
    ...{ started_at: new Date().toISOString(), terms, is_complete: false },
    ...{ pairs: 0, without_token: 0, parts: [] },
  };
}

export function partName(number: number, isEncrypted: boolean): string {
  return `pairs-${String(number).padStart(4, '0')}.ndjson${isEncrypted ? '.age' : ''}`;
}

/** undefined: the folder has none. @throws BulkError for one that this program cannot read */
export async function readManifest(folder: string): Promise<Manifest | undefined> {
  const isReadable = ({ format, version }: Manifest) => format !== FORMAT || version === VERSION;
  const remedy = 'use the release that wrote it';
  const found = await readState(join(folder, MANIFEST), isReadable, remedy);
  return found?.format === FORMAT ? found : undefined;
}

/** The parts in a folder that are whole, whether they belong together or not. */
export function wholeParts(folder: string): string[] {
  return readdirSync(folder).filter((name) => PART.test(name));
}

/**
 * The manifest of a folder with a complete export, every part of which is as it was written.
 * @throws OperatorError
 */
export async function checkedManifest(folder: string): Promise<Manifest> {
  const manifest = await readManifest(folder);
  if (manifest === undefined)
    throw new OperatorError(
      `${folder} has no ${MANIFEST} of standin export, which says what belongs together. Name one file instead.`,
    );
  if (!manifest.is_complete)
    throw new OperatorError(
      `The export in ${folder} did not end: continue it with standin export and --resume.`,
    );
  for (const name of wholeParts(folder)) requireListed(manifest, folder, name);
  for (const { file } of manifest.parts) await requireUnchanged(manifest, folder, file);
  return manifest;
}

/**
 * Checks a file by the manifest in its folder, if it is named as a part and there is one.
 * @throws OperatorError
 */
export async function checkPart(path: string): Promise<undefined> {
  const [folder, name] = [dirname(path), basename(path)];
  const manifest = PART.test(name) ? await readManifest(folder) : undefined;
  if (manifest === undefined) return;
  requireListed(manifest, folder, name);
  await requireUnchanged(manifest, folder, name);
}

/** @throws OperatorError for a file that no part is */
export function requireListed({ parts }: Manifest, folder: string, name: string): void {
  if (parts.some(({ file }) => file === name)) return;
  throw new OperatorError(
    `${join(folder, name)} is no part of the export in its folder: ${MANIFEST} does not list it. It may have values that were forgotten since. Move it away.`,
  );
}

async function requireUnchanged({ parts }: Manifest, folder: string, name: string): Promise<void> {
  const path = join(folder, name);
  const hash = createHash('sha256');
  try {
    await pipeline(createReadStream(path), hash);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT') throw new OperatorError(`${path} cannot be read (${code}).`);
    throw new OperatorError(
      `${path} is missing: ${MANIFEST} lists it. Copy the whole export again.`,
    );
  }
  if (hash.digest('hex') === parts.find(({ file }) => file === name)!.sha256) return;
  throw new OperatorError(
    `${path} is not the file that the export wrote: ${MANIFEST} has another digest. Copy the whole export again.`,
  );
}
