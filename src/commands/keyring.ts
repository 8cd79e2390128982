import type { Command } from 'commander';
import { newKekSettings } from '../config/config.ts';
import { kekSourceOf } from '../kek/kek-source.ts';
import type { KekSettings } from '../kek/source.ts';
import type { VaultOptions } from '../options.ts';
import { count } from '../terminal.ts';
import type { Vault } from '../vault/vault.ts';
import {
  acting,
  command,
  config,
  type OutputOptions,
  printDone,
  printTable,
  time,
  whole,
  withVault,
} from './command.ts';
import { addReseal } from './records.ts';

/** Imported when needed, so that help does not wait for the driver of the database. */
const lifecycle = () => import('../vault/key-lifecycle.ts');

export function addKeyring(program: Command): void {
  const keyring = program.command('keyring').description('The keys of the vault.');
  command(
    keyring,
    'status',
    'List the keys: purpose, version, which is primary, which KEK wraps them, how many records need them.',
    ['standin keyring status --json'],
  ).action((options) => withVault((vault) => status(vault, options)));
  command(keyring, 'rotate', 'Add a version of the dek key, which seals new records from now on.', [
    'standin keyring rotate',
  ]).action((options) => withVault((vault) => acting(rotate(vault, options))));
  addReseal(keyring);
  command(keyring, 'retire', 'Destroy a version of the dek key that no record needs.', [
    'standin keyring retire 1',
  ])
    .argument('<version>', 'of a dek key, as keyring status lists it', keyVersion)
    .action((version, options) => withVault((vault) => acting(retire(vault, version, options))));
  addRewrap(keyring);
}

function addRewrap(keyring: Command): void {
  command(keyring, 'rewrap', 'Wrap all keys with another key-encryption key; no record changes.', [
    'standin keyring rewrap --new-kek-file /etc/standin/new-kek',
    'standin keyring rewrap --new-kek-env new-kek.env',
  ])
    .option('--new-kek-file <file>', 'file of the new key-encryption key, as for KEK_FILE')
    .option(
      '--new-kek-env <file>',
      'file of settings, in .env form, that name the new key-encryption key',
    )
    .action((options, itself: Command) => {
      const { newKekFile: file, newKekEnv: env } = options;
      if ((file === undefined) === (env === undefined))
        itself.error(
          'error: name the new key-encryption key with either --new-kek-file or --new-kek-env',
        );
      return acting(rewrap(config().vault, newKekSettings(file, env), options));
    });
}

const keyVersion = whole('a whole number', 1, 99_999);

/** Opening the vault has unwrapped every key, so all listed keys work. */
async function status(vault: Vault, options: OutputOptions): Promise<void> {
  const { keyStatus } = await lifecycle();
  const keys = await keyStatus(vault);
  const rows = keys.map((key) => [
    key.purpose,
    String(key.version),
    key.is_primary ? 'primary' : key.closed_at === null ? '' : 'closed',
    key.kek_id,
    time(key.created_at),
    key.records === null ? '' : `${key.is_estimate ? 'about ' : ''}${count(key.records)}`,
  ]);
  const headings = ['KEY', 'VERSION', '', 'WRAPPED BY KEK', 'CREATED', 'RECORDS'];
  printTable(options, keys, { headings, rows });
}

async function rotate(vault: Vault, options: OutputOptions) {
  const { rotateKey } = await lifecycle();
  const made = await rotateKey(vault.wrappedKeys, kekSourceOf(vault.options));
  return printDone(
    options,
    made,
    `Version ${made.version} of the dek key is the primary: all nodes seal new records with it within 5 s.
Back up the database. Existing records keep their key version until you run: standin keyring reseal`,
  );
}

async function retire(vault: Vault, version: number, options: OutputOptions) {
  const { retireKey } = await lifecycle();
  return printDone(
    options,
    await retireKey(vault.wrappedKeys, version),
    `Version ${version} of the dek key is gone. Records in an older backup need the keyring of that backup.`,
  );
}

async function rewrap(vaultOptions: VaultOptions, next: KekSettings, options: OutputOptions) {
  const { rewrapKeys } = await lifecycle();
  const rewrapped = await rewrapKeys(vaultOptions, next);
  const { kek_id: kekId, keys } = rewrapped;
  return printDone(
    options,
    rewrapped,
    `${keys === 0 ? 'Nothing changed: all keys are already' : `${count(keys, 'key')} now`} wrapped by the key-encryption key ${kekId}. What to do next:
1. Back up the new key-encryption key, and replace the old one with it on all nodes.
   Running nodes keep working, but cannot start again with the old one.
2. Run on each node: standin doctor
3. Back up the database. Older backups need the old key-encryption key: destroy it when you destroy them.`,
  );
}
