import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Encrypter } from 'age-encryption';
import {
  checkTerms,
  lockOf,
  nameAtLast,
  OutputFile,
  partialOf,
  readState,
  replaceFile,
  type Terms,
} from '#bulk';
import { OperatorError } from '../errors.ts';
import { lockOutput } from './bulk-options.ts';

const FILE_MODE = 0o600;

export type ExportParts = Awaited<ReturnType<typeof openParts>>;

/**
 * The files of an export, in a private folder. A part has its name only when it is whole, so an
 * interrupted run loses at most one part: the end of an encrypted file cannot be moved.
 * @param encrypter undefined: the parts are in clear
 * @throws OperatorError when the folder has other files, or a run that this one does not continue
 */
export async function openParts(
  folder: string,
  terms: Terms,
  encrypter: Encrypter | undefined,
  isResume: boolean,
) {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  await lockOutput(join(folder, MANIFEST));
  const isEmpty = readdirSync(folder).every((name) => name === lockOf(MANIFEST));
  if (!isResume && !isEmpty)
    throw new OperatorError(
      `The folder ${folder} is not empty. Name a new one, or continue the run in it with --resume.`,
    );
  const isEncrypted = encrypter !== undefined;
  let manifest = (await continued(folder, terms, isEncrypted)) ?? newManifest(terms);
  const nextName = () => partName(manifest.parts.length + 1, isEncrypted);
  let part: ExportPart | undefined;
  return {
    get manifest() {
      return manifest;
    },
    /** Pairs in the part that is not complete yet. */
    get pending() {
      return part?.pairs ?? 0;
    },
    async write(text: string, pairs: number, withoutToken: number): Promise<void> {
      part ??= await openPart(join(folder, nextName()), encrypter);
      await part.write(Buffer.from(text));
      part.pairs += pairs;
      part.withoutToken += withoutToken;
    },
    /**
     * Completes the part, if there is one.
     * @param next where the next part begins; undefined: the export is complete
     */
    async complete(next: string | undefined): Promise<void> {
      const { parts, pairs, without_token: withoutToken } = manifest;
      const added = part && { file: nextName(), pairs: part.pairs, ...(await part.complete()) };
      manifest = {
        ...{ ...manifest, is_complete: next === undefined, next },
        pairs: pairs + (part?.pairs ?? 0),
        without_token: withoutToken + (part?.withoutToken ?? 0),
        parts: added === undefined ? parts : [...parts, added],
      };
      part = undefined;
      await replaceFile(join(folder, MANIFEST), `${JSON.stringify(manifest, undefined, 1)}\n`);
    },
    /** Removes a part that is not complete. */
    async close(): Promise<void> {
      await part?.discard();
    },
  };
}

/**
 * The manifest of the run to continue; undefined: no part of one is complete.
 * @throws OperatorError
 */
async function continued(
  folder: string,
  terms: Terms,
  isEncrypted: boolean,
): Promise<Manifest | undefined> {
  const manifest = await readManifest(folder);
  const [first] = wholeParts(folder);
  if (manifest === undefined && first === undefined) return undefined;
  if (manifest === undefined)
    throw new OperatorError(
      `The folder ${folder} has ${first}, but no ${MANIFEST} of a run to continue. Export into a new folder.`,
    );
  if (manifest.is_complete)
    throw new OperatorError(
      `The export in ${folder} is complete, so there is nothing to continue. Export into a new folder.`,
    );
  checkTerms(manifest.terms, terms, 'export into a new folder');
  for (const { file, bytes } of manifest.parts) {
    const status = statSync(join(folder, file), { throwIfNoEntry: false });
    if (status?.size !== bytes)
      throw new OperatorError(
        `${join(folder, file)} is missing or was changed. Export into a new folder.`,
      );
  }
  // A run that was killed may have completed a part that its manifest does not have yet.
  rmSync(join(folder, partName(manifest.parts.length + 1, isEncrypted)), { force: true });
  for (const name of wholeParts(folder)) requireListed(manifest, folder, name);
  return manifest;
}

type ExportPart = Awaited<ReturnType<typeof openPart>>;

/** A file that is encrypted as it is written. */
async function openPart(path: string, encrypter: Encrypter | undefined) {
  const file = await OutputFile.open(path, FILE_MODE, 0);
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const output = (await encrypter?.encrypt(readable)) ?? readable;
  const input = writable.getWriter();
  const hash = createHash('sha256');
  const pour = async () => {
    for await (const chunk of output) {
      hash.update(chunk);
      await file.write(Buffer.from(chunk));
    }
  };
  const written = pour();
  // The failure is thrown where the next write is awaited.
  written.catch(() => {});
  return {
    pairs: 0,
    withoutToken: 0,
    async write(bytes: Buffer): Promise<void> {
      await input.write(bytes).catch(async (error) => {
        await written;
        throw error;
      });
    },
    async complete() {
      await input.close().catch(() => written);
      await written;
      const bytes = await file.flush();
      await file.close();
      await nameAtLast(path);
      return { bytes, sha256: hash.digest('hex') };
    },
    async discard(): Promise<void> {
      await input.abort().catch(() => {});
      await written.catch(() => {});
      await file.close();
      rmSync(partialOf(path), { force: true });
    },
  };
}

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
interface Manifest {
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

function newManifest(terms: Terms): Manifest {
  return {
    ...{ format: FORMAT, version: VERSION, export_id: randomBytes(16).toString('hex') },
    ...{ started_at: new Date().toISOString(), terms, is_complete: false },
    ...{ pairs: 0, without_token: 0, parts: [] },
  };
}

function partName(number: number, isEncrypted: boolean): string {
  return `pairs-${String(number).padStart(4, '0')}.ndjson${isEncrypted ? '.age' : ''}`;
}

/** undefined: the folder has none. @throws BulkError for one that this program cannot read */
async function readManifest(folder: string): Promise<Manifest | undefined> {
  const isReadable = ({ format, version }: Manifest) => format !== FORMAT || version === VERSION;
  const remedy = 'use the release that wrote it';
  const found = await readState(join(folder, MANIFEST), isReadable, remedy);
  return found?.format === FORMAT ? found : undefined;
}

/** The parts in a folder that are whole, whether they belong together or not. */
function wholeParts(folder: string): string[] {
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
function requireListed({ parts }: Manifest, folder: string, name: string): void {
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
