import { join } from 'node:path';
import { kekFile } from './kek-file.ts';

/** Which source the KEK comes from: the settings that name it. */
export interface KekSettings {
  /** undefined: `kek` in the data folder, made with an embedded vault. */
  readonly file: string | undefined;
}

/** Where the KEK comes from. One interface for all places. */
export interface KekSource {
  /** For messages: where an operator looks. */
  readonly place: string;
  /** 32 bytes. @throws OperatorError with what to do about it */
  read(): Promise<Buffer>;
  /** Called for a new vault only: an existing one is lost without its KEK. */
  readOrCreate(): Promise<Buffer>;
  /** What an operator should mend although the KEK can be read; undefined: nothing. */
  warning(): string | undefined;
}

/** @param is_embedded whether the vault is, which may have its KEK beside it */
export function kekSource(
  settings: KekSettings,
  data_dir: string,
  is_embedded: boolean,
): KekSource {
  return settings.file === undefined
    ? kekFile(join(data_dir, 'kek'), is_embedded)
    : kekFile(settings.file, false);
}
